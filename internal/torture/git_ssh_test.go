//go:build linux

package torture

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// gitSSH is git over ssh, with a server that has a host key and lets in one key.
// It is for the long form: CI does without a server of ssh.
var gitSSH = gitBackend("git-ssh", brief{}, way{
	url: serveSSH,
	login: func(dir string) []string {
		return []string{"GIT_SSH_COMMAND=ssh -F " + filepath.Join(dir, "ssh_config")}
	},
})

// serveSSH starts OpenSSH's server for each connection, as inetd would: no port
// has to be guessed, and nobody is turned away because many come at once.
func serveSSH(t testing.TB, remote string) string {
	t.Helper()
	dir := filepath.Dir(remote)
	me, err := user.Current()
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	sshFiles(t, dir, port)

	log, err := os.Create(filepath.Join(dir, "sshd.log"))
	must(t, err)
	t.Cleanup(func() {
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the end of what sshd said: %s", text[max(0, len(text)-2000):])
		}
	})
	server := sshServer(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("ssh: %v", err)
				}
				return
			}
			go answer(conn.(*net.TCPConn), log, server, filepath.Join(dir, "sshd_config"))
		}
	}()
	return fmt.Sprintf("ssh://%s@127.0.0.1:%d%s", me.Username, port, remote)
}

// answer gives a connection to a server of its own.
func answer(conn *net.TCPConn, log *os.File, server, config string) {
	f, err := conn.File()
	_ = conn.Close()
	if err != nil {
		return
	}
	cmd := exec.Command(server, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f, f, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_ = f.Close()
	if err != nil {
		_, _ = fmt.Fprintf(log, "%s: %v\n", server, err)
		return
	}
	_ = cmd.Wait() // 255 after every connection
}

// sshServer finds sshd, which lies where only root looks, and makes the folder
// that it wants on Debian.
func sshServer(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("sshd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/sshd")
	}
	if err != nil {
		t.Fatalf("%v; type: scripts/need ssh sshd", err)
	}
	if os.Getuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755))
	}
	return path
}

// sshFiles writes the keys and the settings of both sides. The key "stranger"
// is let in nowhere, and "others" knows the server by another host key.
func sshFiles(t testing.TB, dir string, port int) {
	t.Helper()
	for _, name := range []string{"host", "user", "stranger"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	key := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".pub"))
		must(t, err)
		return string(text)
	}
	put := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
	}
	put("authorized_keys", key("user"))
	put("known_hosts", fmt.Sprintf("[127.0.0.1]:%d %s", port, key("host")))
	put("others", fmt.Sprintf("[127.0.0.1]:%d %s", port, key("stranger")))
	put("sshd_config", `HostKey DIR/host
AuthorizedKeysFile DIR/authorized_keys
StrictModes no
PidFile none
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
`)
	put("ssh_config", sshConfig("user", "known_hosts"))
	put("ssh_stranger", sshConfig("stranger", "known_hosts"))
	put("ssh_others", sshConfig("user", "others"))
}

func sshConfig(key, hosts string) string {
	return fmt.Sprintf(`IdentityFile DIR/%s
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile DIR/%s
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
`, key, hosts)
}
