// Command server is etcd, built from its own module for the tests. It has a
// go.mod of its own: a program that only talks to etcd does not need a server.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
