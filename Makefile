# tasklock. `make help` lists the targets.
export CGO_ENABLED  = 0
export GOTOOLCHAIN ?= local
export GOFLAGS     ?= -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  = -s -w -X main.version=$(VERSION)
LIBRARY  = ./internal/fault ./internal/host ./store/... ./internal/lease/... ./task/... ./internal/legacy ./internal/holder ./internal/worker ./runner/... ./schedule/... ./internal/identity ./internal/shellwrites ./internal/rewrite ./internal/harness ./internal/guard ./internal/githooks ./internal/mcpserver ./internal/door

SERVERLESS = $(shell go list ./... | grep -vE '/(pgstore|etcdstore|pgtest|etcdtest|torture)$$')
CORES := $(shell nproc 2>/dev/null || echo 2)
JOBS ?= $(shell expr $(CORES) + 1) # packages tested at once: most tests wait for processes

.DEFAULT_GOAL := build
.PHONY: build etcd demo check test race short-torture torture cross typescript harnesses bench lint fuzz install clean help

build: ## build bin/tasklock and bin/tasklock-plus
	@scripts/need go git
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

etcd: ## build the etcd server that tests run, into the user's cache folder
	go test -count=1 -run TestServerIsBuilt -timeout 20m ./internal/etcdtest

demo: build ## two workers race, one waits, one is killed: on SQLite, in a scratch folder
	@scripts/demo bin/tasklock

check: ## the inner loop, about a minute, without servers or root: gofmt, vet, short tests, macOS and Windows
	@scripts/need go git
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	go vet ./...
	go test -short -p $$(expr 2 '*' $(CORES) + 1) $(SERVERLESS)
	@$(MAKE) --no-print-directory cross

test: build cross etcd ## all tests in less than ten minutes: every store with its real server, the scripts, the clients
	@scripts/need go git gcc sqlite3 patch unzip zip curl jq vim ed perl python3 node strace xfs_io mkfs.ext4 losetup unshare pg_ctl pgbouncer
	go vet ./...
	cd bench && go vet ./...
	go test -p $(JOBS) -timeout 20m ./store/... ./internal/cli/... $$(go list ./... | grep -vE '/internal/(torture|fault/plant)$$')
	go test -short ./internal/fault/plant
	@$(MAKE) --no-print-directory typescript

race: etcd ## the library's tests under the race detector
	@scripts/need go gcc pg_ctl pgbouncer
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 go test -p 2 -race -short -timeout 30m $(LIBRARY)

cross: ## it builds for macOS and Windows too
	GOOS=darwin go build ./...
	GOOS=windows go build ./...

typescript: build ## the TypeScript client, OpenCode's plugin, husky and lefthook against the real command
	@scripts/need node npm
	scripts/test-typescript bin/tasklock
	scripts/test-installed bin/tasklock

short-torture: build etcd ## races, kills, pauses, crashes, planted bugs, a quarter of an hour: what CI runs after test and race
	@scripts/need go git ssh sshd sqlite3 strace xfs_io mkfs.ext4 losetup unshare pg_ctl
	go test -p 1 -count=1 -timeout 60m ./internal/torture ./internal/fault/plant

torture: build etcd ## the long forms, more than an hour: races, kills, pauses, crashes at every system call
	@scripts/need go git ssh sshd sqlite3 strace xfs_io mkfs.ext4 losetup unshare pg_ctl
	scripts/torture

harnesses: build ## real coding agents against a scripted model: 1.5 GB from npm, some minutes, HARNESS=claude for one
	@scripts/need go git node npm
	go run ./internal/realagents -tasklock bin/tasklock $(HARNESS)

bench: build etcd ## ratios to the raw limit and to peers, in one run
	@scripts/need go gcc git redis-server pg_ctl
	@[ -f /usr/include/sqlite3.h ] || scripts/need libsqlite3-dev
	cd bench && go run . ../bin

lint: ## gofumpt, vet, staticcheck, govulncheck where its database is reached
	@out=$$(go run mvdan.cc/gofumpt@v0.12.0 -l .); [ -z "$$out" ] || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	@go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 ./... || echo "govulncheck: not clean, or its database is out of reach"

fuzz: ## every fuzz target for 30 seconds
	scripts/fuzz 30s

install: build ## install into PREFIX/bin, default /usr/local
	install -d $(DESTDIR)$(or $(PREFIX),/usr/local)/bin
	install -m 755 bin/* $(DESTDIR)$(or $(PREFIX),/usr/local)/bin

clean: ## remove what was built
	rm -rf bin

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 15
