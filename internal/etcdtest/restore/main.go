// Command restore is the part of etcdutl that makes the folder of a member out of
// a snapshot: restore SNAPSHOT FOLDER NAME PEER-URL. It has a go.mod of its own:
// only the long form of one test needs it.
package main

import (
	"log"
	"os"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

func main() {
	from, to, name, peer := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: from, OutputDataDir: to, Name: name, PeerURLs: []string{peer},
		InitialCluster: name + "=" + peer, InitialClusterToken: "etcd-cluster", // as etcd itself calls it
	})
	if err != nil {
		log.Fatal(err)
	}
}
