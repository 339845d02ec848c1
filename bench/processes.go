package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/store"
)

const processCount = 8

// tally is what a worker process measured.
type tally struct {
	Pairs int
	Slow  []time.Duration // of each pair
	Fault string
}

// processes races eight processes on one database, each with its own key:
// what they share is the file. Stock SQLite writes the rows that a pair of ours
// writes, and looks at none before.
func (b *bench) processes() {
	b.section(fmt.Sprintf("SQLite, %d processes", processCount))
	stock := b.race("stock")
	ours := b.race("pairs")
	b.note("stock (busy_timeout only)", stock.String())
	b.note("tasklock", ours.String())
	b.row("errors such as BUSY", fmt.Sprint(ours.faults), "none", ours.faults == 0)
	b.row("p99 of a pair", ours.p99.Round(time.Millisecond/10).String(), "<= 100ms", ours.p99 <= 100*time.Millisecond)
	b.row("slowest process / fastest", fmt.Sprintf("%.2f", ours.fair), ">= 0.5", ours.fair >= 0.5)
	b.row("total / stock, equal rows", fmt.Sprintf("%.2f", ours.rate/stock.rate), ">= 0.8", ours.rate >= 0.8*stock.rate)
}

type outcome struct {
	rate, fair float64
	p99        time.Duration
	faults     int
}

func (o outcome) String() string {
	return fmt.Sprintf("%.0f pairs/s, p99 %s, slowest/fastest %.2f, %d errors", o.rate, o.p99.Round(time.Millisecond/10), o.fair, o.faults)
}

func (b *bench) race(kind string) outcome {
	dir := b.fresh("processes-" + kind)
	path := filepath.Join(dir, "tasklock.db")
	self, err := os.Executable()
	check(err)
	if kind == "pairs" {
		check(open(path).Close())
	} else {
		stockOpen(path).Close()
		check(os.WriteFile(path+".sql", []byte(sqlOf(batchesOfAPair(dir))), 0o600))
	}
	var cmds []*exec.Cmd
	var outs []*json.Decoder
	for i := range processCount {
		cmd := exec.Command(self, "worker", kind, path, fmt.Sprint("key", i))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		cmds, outs = append(cmds, cmd), append(outs, json.NewDecoder(out))
	}
	var o outcome
	var all []time.Duration
	least, most := 1<<62, 0
	for i, cmd := range cmds {
		var t tally
		check(outs[i].Decode(&t))
		check(cmd.Wait())
		all = append(all, t.Slow...)
		least, most = min(least, t.Pairs), max(most, t.Pairs)
		if t.Fault != "" {
			o.faults++
		}
	}
	o.rate = float64(len(all)) / (2 * length).Seconds()
	o.fair = float64(least) / float64(max(most, 1))
	o.p99 = percentile(all, 0.99)
	return o
}

func worker(kind string, args []string) {
	switch kind {
	case "pairs":
		st := store.New(open(args[0]))
		measure(func() error { pair(st, args[1], args[1]); return nil })
	case "stock":
		conn := stockOpen(args[0])
		defer conn.Close()
		measure(stockPair(conn, args[0]+".sql", args[1]))
	case "claims":
		claimWorker(args[0], args[1])
	case "wait":
		waitWorker(args[0])
	case "join":
		joinWorker(args[0], args[1])
	case "hold":
		holdWorker(args)
	case "wait-postgres":
		waitPostgres(args[0])
	case "postgres":
		st := store.New(openPostgres(args[0]))
		serveWindows(func() { pair(st, args[1], args[1]) })
	case "pglock":
		peer := openPeer(openSQL(args[0]))
		serveWindows(func() { peerPair(peer, args[1]) })
	case "etcd":
		st := openEtcd(args[0])
		serveWindows(func() { pair(st, args[1], args[1]) })
	case "mutex":
		serveWindows(mutexPair(etcdAt(args[0]), args[1], false))
	}
}

func measure(fn func() error) {
	var t tally
	for start := time.Now(); time.Since(start) < 2*length; {
		before := time.Now()
		if err := fn(); err != nil {
			t.Fault = err.Error()
			continue
		}
		t.Pairs++
		t.Slow = append(t.Slow, time.Since(before))
	}
	check(json.NewEncoder(os.Stdout).Encode(t))
}

// stockOpen and stockPair are what one writes without thinking further.
func stockOpen(path string) *sqlite.Conn {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	check(err)
	conn.SetBusyTimeout(10 * time.Second)
	check(sqlitex.ExecuteTransient(conn, "PRAGMA synchronous=FULL", nil))
	check(sqlitex.ExecuteTransient(conn, `CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY NOT NULL, rev INTEGER NOT NULL, wall INTEGER NOT NULL,
		awake INTEGER NOT NULL, domain TEXT NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID`, nil))
	return conn
}

// stockPair carries out the statements of a pair, on a key and with events of its own.
func stockPair(conn *sqlite.Conn, statements, key string) func() error {
	text, err := os.ReadFile(statements)
	check(err)
	own := strings.NewReplacer("lock/key", "lock/"+key, "lease/me/", "lease/"+key+"/", "event/", "event/"+key+"/")
	sql := strings.Split(strings.TrimSpace(own.Replace(string(text))), "\n")
	number := 0
	return func() error {
		number++
		for _, q := range sql {
			if err := execute(conn, q, number); err != nil {
				return err
			}
		}
		return nil
	}
}

func execute(conn *sqlite.Conn, sql string, number int) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	if stmt.BindParamCount() > 0 {
		stmt.BindInt64(1, int64(number))
	}
	if _, err := stmt.Step(); err != nil {
		return err
	}
	return stmt.Reset()
}
