package httpstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// keyEnv is the variable with the access key.
const keyEnv = "TASKLOCK_ACCESS_KEY"

// A Place is a store's URL taken apart:
//
//	https://host[:port][/prefix][?keyfile=FILE][&ca=FILE]
//	http://localhost[:port]…
//
// The access key is in keyfile, which only its owner may read, or in
// TASKLOCK_ACCESS_KEY; never in the URL. ca is a file with the authorities to trust
// in place of the system's.
type Place struct {
	URL string // without options

	loopback    bool // plain HTTP: no other machine may be asked
	keyfile, ca string
}

// Parse takes a URL apart. Its errors do not repeat the URL, in which somebody may
// have put a key.
func Parse(text string) (Place, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return Place{}, invalid("must be https://HOST[:PORT][/PREFIX]")
	}
	if u.User != nil {
		return Place{}, invalid("holds a user or a key, which lists of processes show: put the key into %s", keyEnv)
	}
	p := Place{loopback: u.Scheme == "http"}
	if p.loopback && !isLoopback(u.Hostname()) {
		return Place{}, fmt.Errorf("%w: http:// would send the access key and all records in the open; use https://, or a tunnel to localhost", driver.ErrUnsafe)
	}
	if err := p.options(u.RawQuery); err != nil {
		return Place{}, err
	}
	if u.Fragment != "" {
		return Place{}, invalid("has something after #")
	}
	p.URL = u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	return p, nil
}

func (p *Place) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("has options that cannot be read")
	}
	for name, v := range values {
		into := map[string]*string{"keyfile": &p.keyfile, "ca": &p.ca}[name]
		switch {
		case into == nil:
			return invalid("has the option %q: it knows keyfile and ca", name)
		case !filepath.IsAbs(v[0]): // a command may run in any folder
			return invalid("names no absolute path as %s", name)
		}
		*into = v[0]
	}
	if p.loopback && p.ca != "" {
		return invalid("has an option for TLS: begin it with https://")
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// An InvalidError is a malformed URL. It is driver.ErrInvalid.
type InvalidError struct{ Rule string }

func (e *InvalidError) Error() string { return "the URL of a tasklock server " + e.Rule }

// Is makes errors.Is(err, driver.ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == driver.ErrInvalid }

func invalid(format string, args ...any) error {
	return &InvalidError{Rule: fmt.Sprintf(format, args...)}
}

// key is the access key, empty if there is none.
func (p *Place) key() (string, error) {
	text, from := os.Getenv(keyEnv), keyEnv
	if p.keyfile != "" {
		b, err := readSecret(p.keyfile)
		if err != nil {
			return "", err
		}
		text, from = string(b), p.keyfile
	}
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%w: %s does not hold an access key", driver.ErrInvalid, from)
	}
	return text, nil
}

// readSecret reads a file that only its owner can read.
func readSecret(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: keyfile: %w", driver.ErrDenied, err)
	}
	if runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: others can read the access key in %s; run: chmod 600 %s", driver.ErrUnsafe, path, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: keyfile: %w", driver.ErrDenied, err)
	}
	return b, nil
}

func (p *Place) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.ca == "" {
		return c, nil
	}
	pem, err := os.ReadFile(p.ca)
	if err != nil {
		return nil, fmt.Errorf("%w: ca: %w", driver.ErrDenied, err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, invalid("names %s as ca, which holds no certificate", p.ca)
	}
	return c, nil
}

// onlyHere refuses to connect to another machine: a name such as localhost may mean
// anything.
func onlyHere(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !isLoopback(host) {
		return cmp.Or(err, fmt.Errorf("%w: %s is not on this machine, and http:// would send the access key in the open", driver.ErrUnsafe, address))
	}
	return nil
}

// missing says what to do about a server without a store for peers.
func (p *Place) missing(err error) error {
	status, ok := errors.AsType[*statusError](err)
	if !ok || status.code != 404 && status.code != 405 {
		return err
	}
	return &driver.LacksError{Text: p.URL + " offers no store to peers (" + status.text + ")", Remedy: "tasklock serve --peers"}
}
