package server

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// TLS is a configuration with the certificate of two files. It follows the files when
// they change; while they do not fit together, it keeps what it had.
func TLS(cert, key string, note func(string)) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, note: note}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnsafe, err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"}, // the waits of a peer share a connection
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}, nil
}

// certificate is one that files hold.
type certificate struct {
	cert, key string
	note      func(string)

	mu     sync.Mutex
	loaded *tls.Certificate
	stamps [2]stamp  // of the files when they were last read
	looked time.Time // at most once a second
}

// stamp tells versions of a file apart.
type stamp struct {
	at   time.Time
	size int64
}

func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= time.Second {
		c.looked = now
		if at, err := c.stamp(); err == nil && at != c.stamps {
			if err := c.load(); err != nil {
				c.note("the new certificate cannot be used: " + err.Error())
			}
		}
	}
	return c.loaded
}

// load reads the files. Those that cannot be used are not read again until they change.
func (c *certificate) load() (err error) {
	if c.stamps, err = c.stamp(); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.loaded = &pair
	}
	return err
}

func (c *certificate) stamp() (out [2]stamp, err error) {
	for i, name := range []string{c.cert, c.key} {
		fi, err := os.Stat(name)
		if err != nil {
			return out, err
		}
		out[i] = stamp{fi.ModTime(), fi.Size()}
	}
	return out, nil
}
