//go:build linux

package torture

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPlantedInDrivers: the drivers' own tests find the bugs that can be
// planted below the rules, where no race of leases shows them: two clients that
// make the same commit of git, a journal that is emptied before its files are
// on the disk, a record on a lease of etcd that ends too soon. They need failpoints, so they are built and run here.
func TestPlantedInDrivers(t *testing.T) {
	for _, name := range []string{"sqlitestore", "filestore", "gitstore", "etcdstore", "pgstore"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("..", "..", "store", name)
			cmd := exec.Command(build(t, name+".test", "test", "-c", "./"+dir), "-test.run=^TestPlanted", "-test.v")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
