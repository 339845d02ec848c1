package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	_ "github.com/tasklock/tasklock/store/sqlitestore" // opens sqlite: URLs
)

// The driver of a store is imported for its effect: it opens the URLs of its
// scheme.
func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	st, err := store.Open(ctx, "sqlite:"+filepath.Join(dir, "locks.db"), &store.OpenOptions{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()

	_, err = st.Update(ctx, driver.Query{}, func(tx *store.Tx) error { return tx.Put("greeting/hello", map[string]string{"text": "world"}) })
	fmt.Println(st.Scheme(), err)

	_, err = store.Open(ctx, "etcd://localhost:2379/locks", nil)
	fmt.Println(err)
	// Output:
	// sqlite <nil>
	// store etcd:: this program has no driver for it: import github.com/tasklock/tasklock/store/etcdstore
}
