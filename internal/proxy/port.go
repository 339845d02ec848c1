package proxy

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

var given sync.Map // ports that Port has returned

// Port finds a port of 127.0.0.1 for a server that is started a moment later.
// It is none of those that the kernel gives to connections and to whoever
// listens on port 0, and is not given twice: nobody takes it in that moment.
func Port() (int, error) {
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}
