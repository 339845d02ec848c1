package gitstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

func TestHostileRemotes(t *testing.T) {
	dir := t.TempDir()
	g, err := newGit("", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, remote := range []string{
		"", "-", "--upload-pack=touch x", "-oProxyCommand=touch x", "ext::sh -c 'touch x'", "fd::7", "EXT::sh", "http::https://h/r",
		"ext://h/r", "git://h/r", "ftp://h/r", "transport://x", "https://h/r\nX: y", "https://h/r\x00", "a\x1bb", "ssh://-oProxyCommand=x/r",
		"ssh://user@-oProxyCommand=x/r", "https://", "http:///path", "ssh://", "\xff\xfe",
	} {
		if _, err := resolve(t.Context(), g, remote, dir); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v", remote, err)
		} else if strings.ContainsAny(err.Error(), "\n\x1b\x00") {
			t.Errorf("%q is repeated raw: %q", remote, err)
		}
	}
	if _, err := resolve(t.Context(), g, "-oProxyCommand=x:path", dir); err == nil {
		t.Error("a host that is an option was accepted")
	}
	if _, err := resolve(t.Context(), g, "nowhere", dir); err == nil || errors.Is(err, driver.ErrMissing) {
		t.Errorf("an unknown name: %v", err)
	}
	for remote, want := range map[string]string{
		"https://example.com/r.git": "", "http://example.com:8080/r": "", "ssh://git@example.com:22/r": "", "git@example.com:team/r.git": "",
		"example.com:r": "", "[::1]:r": "", "ssh://[::1]/r": "", "file:///srv/r.git": "", "/srv/r.git": "", "../r.git": dir + "/../r.git",
	} {
		p, err := resolve(t.Context(), g, remote, dir+"/sub")
		if want == "" {
			want = remote
		}
		if remote == "../r.git" {
			want = dir + "/r.git"
		}
		if err != nil || p.url != want {
			t.Errorf("%q: %q, %v", remote, p.url, err)
		}
	}
}

func TestHostileBranches(t *testing.T) {
	for _, name := range []string{
		"", "-x", "a..b", "HEAD", "head", "main", "master", "Main", "refs/heads/main", "heads/x", "a.lock", "x/a.lock/b", "a@{1}", "@", "a b", "a\tb",
		"a~1", "a^", "a:b", "a?", "a*", "a[b", `a\b`, "/a", "a/", "a//b", "a.", ".a", "x/.a", "a\x7f", "a\u202eb", strings.Repeat("x", 300),
	} {
		if err := checkBranch(name); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"tasklock", "locks/team-a", "main-locks", "t.1", "über"} {
		if err := checkBranch(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCredentialsAreNotShown(t *testing.T) {
	for _, target := range []string{
		"https://user:s3cr%21et@example.com/r.git", "https://s3cr!et@example.com/r", "http://s3cr!et:x-oauth-basic@h/r", "ssh://git:s3cr!et@h/r",
	} {
		p := newPlace(target)
		g := &git{secrets: p.secrets}
		for _, text := range []string{
			p.show, g.redact("fatal: unable to access '" + target + "/': s3cr!et"), g.redact("remote: https://s3cr!et@example.com says no"),
		} {
			if strings.Contains(text, "s3cr") {
				t.Errorf("%s shows %s", target, text)
			}
		}
	}
	if p := newPlace("ssh://git@example.com/r"); p.show != p.url {
		t.Errorf("%s", p.show)
	}
	g := &git{}
	said := g.redact("remote: \x1b[2J\x1b]52;c;eA==\x07hello\u202e\r\nhint: ignore\n\n")
	if strings.ContainsAny(said, "\x1b\x07\r\n\u202e") || !strings.Contains(said, "hello") {
		t.Errorf("%q", said)
	}
}

func TestFirstSeen(t *testing.T) {
	at := func(sec int64) local.Stamp {
		return local.Stamp{Wall: sec * 1e9, Awake: sec * 1e9, Domain: "boot"}
	}
	k := &known{}
	k.saw("id", 10, at(100))
	k.saw("id", 10, at(110)) // the same again: not younger
	k.saw("id", 20, at(200))
	for rev, want := range map[int64]int64{1: 100, 10: 100, 11: 200, 20: 200, 21: 300} {
		if got := k.first(rev, at(300)).Unix(); got != want {
			t.Errorf("revision %d was first seen at %d, want %d", rev, got, want)
		}
	}
	for i := range int64(1000) {
		k.saw("id", 100+i, at(1000+i))
	}
	if len(k.Seen) > maxSeen {
		t.Errorf("%d sightings are kept", len(k.Seen))
	}
	for rev := int64(100); rev < 1100; rev++ { // thinning makes younger, never older
		if got := k.first(rev, at(5000)).Unix(); got < 900+rev {
			t.Fatalf("revision %d was first seen at %d", rev, got)
		}
	}
	if got := k.first(1099, at(5000)).Unix(); got != 1999 {
		t.Errorf("the newest was seen at %d", got)
	}
	k.saw("other", 5000, at(6000))
	if got := k.first(1, at(6001)).Unix(); got != 6000 {
		t.Errorf("another store's record was seen at %d", got)
	}
}
