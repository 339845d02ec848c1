// Command server is etcd, built from its own module for the tests. It has a
// go.mod of its own: what a server needs is no concern of who only talks to it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
