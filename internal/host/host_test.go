package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSelf(t *testing.T) {
	me := Self()
	if me.PID != os.Getpid() || me.Start == "" {
		t.Fatalf("Self() = %+v", me)
	}
	if found, err := Find(os.Getpid()); err != nil || found != me {
		t.Errorf("Find(self) = %+v, %v; want %+v", found, err, me)
	}
}

func TestProcessIsFlatInRecords(t *testing.T) {
	record := struct {
		Owner string `json:"owner"`
		Process
	}{"ci", Process{7, "s", "b", "n"}}
	got, err := json.Marshal(record)
	want := `{"owner":"ci","pid":7,"pidStart":"s","bootId":"b","pidNamespace":"n"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if empty, _ := json.Marshal(Process{}); string(empty) != "{}" {
		t.Errorf("nothing recorded is written as %s", empty)
	}
}

func TestFindOfNobody(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		if p, err := Find(pid); !errors.Is(err, syscall.ESRCH) || p != (Process{}) {
			t.Errorf("Find(%d) = %+v, %v", pid, p, err)
		}
	}
}

func TestNothingRecordedIsUnknown(t *testing.T) {
	me := Self()
	for _, p := range []Process{
		{},
		{Start: me.Start, Boot: me.Boot, NS: me.NS},
		{PID: -1, Start: me.Start, Boot: me.Boot, NS: me.NS},
		{PID: 1 << 30},
		{PID: 1 << 30, Start: "1"},
	} {
		if got := p.Life(); got != Unknown {
			t.Errorf("%+v is %v", p, got)
		}
	}
}

func TestAwakeGrows(t *testing.T) {
	before, domain := Awake()
	time.Sleep(20 * time.Millisecond)
	after, again := Awake()
	if passed := after - before; passed < 15*time.Millisecond || passed > 20*time.Second {
		t.Errorf("the clock went %v in 20ms", passed)
	}
	if domain != again {
		t.Errorf("domain changed from %q to %q", domain, again)
	}
	if (BootID() == "") != (domain == "") {
		t.Errorf("boot %q, domain %q", BootID(), domain)
	}
}

func BenchmarkAwake(b *testing.B) {
	for b.Loop() {
		Awake()
	}
}

func BenchmarkLife(b *testing.B) {
	p, err := Find(os.Getppid())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Life()
	}
}

func TestNames(t *testing.T) {
	if Name() == "" {
		t.Error("empty host name")
	}
	if strings.Contains(Terminal(), "/") {
		t.Errorf("terminal %q would be two folders", Terminal())
	}
}

func TestLinuxFileSystems(t *testing.T) {
	unsafe := map[uint32]string{
		0x6969: "nfs", 0x517b: "smb", 0xff534d42: "cifs", 0xfe534d42: "smb2", 0x01021997: "9p",
		0x65735546: "fuse", 0x00c36400: "ceph", 0x5346414f: "afs", 0x6b414653: "afs", 0x73757245: "coda",
		0x0bd00bd0: "lustre", 0x47504653: "gpfs", 0x786f4256: "vboxsf", 0xbacbacbc: "vmhgfs",
		0x7c7c6673: "prl_fs", 0x7461636f: "ocfs2", 0x01161970: "gfs2",
	}
	safe := map[uint32]string{
		0xef53: "ext", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs",
		0x794c7630: "overlay", 0x2fc12fc1: "zfs", 0xf2f52010: "f2fs", 0xca451a4e: "bcachefs",
		0x12345678: "unknown (0x12345678)",
	}
	for want, table := range map[bool]map[uint32]string{false: unsafe, true: safe} {
		for magic, name := range table {
			if n, ok := linuxFileSystem(magic); n != name || ok != want {
				t.Errorf("0x%x is %q, safe %v; want %q, %v", magic, n, ok, name, want)
			}
		}
	}
}

func TestDarwinFileSystems(t *testing.T) {
	for _, c := range []struct {
		name        string
		local, safe bool
	}{
		{"apfs", true, true},
		{"hfs", true, true},
		{"exfat", true, true},
		{"nfs", false, false},
		{"smbfs", false, false},
		{"afpfs", false, false},
		{"webdav", true, false},
		{"macfuse", true, false},
		{"osxfuse", true, false},
		{"AppleVirtIOFS", true, false},
		{"invented", false, false},
	} {
		if got := darwinFileSystem(c.name, c.local); got != c.safe {
			t.Errorf("%s (local %v) is safe: %v", c.name, c.local, got)
		}
	}
}

func TestFileSystemOfPaths(t *testing.T) {
	dir := t.TempDir()
	want, _, err := FileSystem(dir)
	if err != nil || want == "" {
		t.Fatalf("FileSystem(%s) = %q, %v", dir, want, err)
	}
	if got, _, err := FileSystem(filepath.Join(dir, "not", "yet", "there")); err != nil || got != want {
		t.Errorf("of a path to come: %q, %v; want %q", got, err, want)
	}
}

func TestOwner(t *testing.T) {
	fi, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if uid, ok := Owner(fi); ok != (os.Getuid() >= 0) || ok && uid != os.Getuid() {
		t.Errorf("Owner = %d, %v", uid, ok)
	}
}
