package etcdstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// Defaults of the URL.
const (
	DefaultPrefix = "/tasklock"
	defaultPort   = "2379"
)

// maxPrefix leaves room in a request: up to 6,100 keys in it have the prefix.
const maxPrefix = 40

// passwordEnv is the variable that etcdctl uses for a password too.
const passwordEnv = "ETCDCTL_PASSWORD"

// A Place is a store's URL taken apart:
//
//	etcd://[user[:password]@]host[:port][,host[:port]…][/prefix]
//	etcds://…[?ca=FILE][&cert=FILE&key=FILE]
//
// etcds is TLS, with the system's authorities unless ca names a file. Reserved
// characters in user and password are percent-encoded. A user without a
// password has the one in ETCDCTL_PASSWORD.
type Place struct {
	Endpoints []string
	Prefix    string // begins with a slash, does not end with one
	User      string

	password      string
	secure        bool
	ca, cert, key string
}

// Parse takes a URL apart. Its errors do not repeat the URL, which may hold a
// password.
func Parse(text string) (Place, error) {
	p := Place{}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return p, invalid("must begin with etcd:// or etcds://")
	}
	p.secure = scheme == "etcds"
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		if err := p.user(hosts[:i]); err != nil {
			return p, err
		}
		hosts = hosts[i+1:]
	}
	if strings.ContainsRune(path+query, '@') { // perhaps the end of a password: do not show it or take it for a host
		return p, invalid("has an @ after its hosts: write %%2F, %%3F and %%40 for / ? and @ in user and password")
	}
	return p, errors.Join(p.hosts(hosts), p.prefix(path), p.options(query))
}

// An InvalidError is a malformed URL. It is driver.ErrInvalid.
type InvalidError struct{ Rule string }

func (e *InvalidError) Error() string { return "the URL of an etcd store " + e.Rule }

// Is makes errors.Is(err, driver.ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == driver.ErrInvalid }

func invalid(format string, args ...any) error {
	return &InvalidError{Rule: fmt.Sprintf(format, args...)}
}

func (p *Place) user(info string) (err error) {
	user, password, given := strings.Cut(info, ":")
	if p.User, err = url.PathUnescape(user); err == nil {
		p.password, err = url.PathUnescape(password)
	}
	if err != nil { // which would show it
		return invalid("has a user or password with a bad percent sign: write %%25 for it")
	}
	if !given {
		p.password = os.Getenv(passwordEnv)
	}
	if p.User == "" || p.password == "" {
		return invalid("needs user and password, as in etcd://user:password@host, or the password in " + passwordEnv)
	}
	return nil
}

func (p *Place) hosts(list string) error {
	protocol := "http://"
	if p.secure {
		protocol = "https://"
	}
	for _, h := range strings.Split(list, ",") {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = strings.Trim(h, "[]"), defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@ ") {
			return invalid("names no host: write etcd://host:2379,host:2379/prefix")
		}
		p.Endpoints = append(p.Endpoints, protocol+net.JoinHostPort(host, port))
	}
	return nil
}

// hostList names the servers, for people.
func (p *Place) hostList() string {
	list := strings.Join(p.Endpoints, ",")
	return strings.NewReplacer("http://", "", "https://", "").Replace(list)
}

func (p *Place) prefix(path string) error {
	path, err := url.PathUnescape(path)
	if err != nil {
		return invalid("has a bad percent sign in its prefix")
	}
	if p.Prefix = "/" + strings.Trim(path, "/"); p.Prefix == "/" {
		p.Prefix = DefaultPrefix
	}
	if len(p.Prefix) > maxPrefix {
		return invalid("has a prefix of %d bytes, at most %d", len(p.Prefix), maxPrefix)
	}
	return nil
}

func (p *Place) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("has options that cannot be read")
	}
	for name, v := range values {
		into := map[string]*string{"ca": &p.ca, "cert": &p.cert, "key": &p.key}[name]
		if into == nil {
			return invalid("has the option %q: it knows ca, cert and key", name)
		}
		*into = v[0]
	}
	switch {
	case len(values) > 0 && !p.secure:
		return invalid("has options for TLS: begin it with etcds://")
	case (p.cert == "") != (p.key == ""):
		return invalid("needs cert and key together")
	}
	return nil
}

// tls is nil without TLS.
func (p *Place) tls() (*tls.Config, error) {
	if !p.secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if err != nil {
			return nil, fmt.Errorf("%w: ca: %w", driver.ErrDenied, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("names %s as ca, which holds no certificate", p.ca)
		}
	}
	if p.cert != "" {
		pair, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			return nil, fmt.Errorf("%w: cert and key: %w", driver.ErrDenied, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
