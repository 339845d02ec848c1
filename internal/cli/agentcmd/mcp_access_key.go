package agentcmd

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store/driver"
)

const (
	accessKeyEnv = "TASKLOCK_ACCESS_KEY"
	minAccessKey = 32
	maxAccessKey = 4096
)

// accessKey returns the secret of a server, and its source. It is never a flag: others
// can read those. If there is none, accessKey makes one, if only this machine can reach
// the server.
func accessKey(s *session.Session, file string, near bool) (key, from string, err error) {
	if key := s.Env(accessKeyEnv); file == "" && key != "" {
		return key, accessKeyEnv, checkAccessKey(key, accessKeyEnv)
	}
	if file == "" {
		if !near {
			return "", "", errNoKey
		}
		if file, err = accessKeyFile(s); err != nil {
			return "", "", err
		}
	}
	key, err = readAccessKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		if !near {
			return "", "", errNoKey
		}
		key, err = makeAccessKey(file)
	}
	if err != nil {
		return "", "", err
	}
	return key, file, checkAccessKey(key, file)
}

func checkAccessKey(key, from string) error {
	if len(key) < minAccessKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%w: %s: an access key has %d visible characters or more, and no spaces", driver.ErrUnsafe, from, minAccessKey)
	}
	return nil
}

// accessKeyFile is the one in the project's folder, which is made if need be.
func accessKeyFile(s *session.Session) (string, error) {
	cfg, err := s.Config()
	if err != nil {
		return "", err
	}
	if cfg.Place.Folder == "" {
		return "", session.Usagef("--http needs --access-key-file or %s: there is no folder to keep a key in", accessKeyEnv)
	}
	return filepath.Join(cfg.Place.Folder, "access-key"), cfg.MakeFolder()
}

// readAccessKey refuses a file that others can read or put there.
func readAccessKey(file string) (string, error) {
	fi, err := os.Lstat(file)
	switch {
	case err != nil:
		return "", err
	case !fi.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is not a regular file", driver.ErrUnsafe, file)
	case runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%w: others can read %s; run: chmod 600 %s, and choose another key", driver.ErrUnsafe, file, term.ShellQuote(file))
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(fi, now) {
		return "", fmt.Errorf("%w: %s was replaced meanwhile", driver.ErrUnsafe, file)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxAccessKey))
	return strings.TrimSpace(string(b)), err
}

func makeAccessKey(file string) (string, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key := base64.RawURLEncoding.EncodeToString(secret)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(key + "\n")
	return key, errors.Join(err, f.Close())
}
