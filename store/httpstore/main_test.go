package httpstore_test

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/httpstore"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

const key = "tl_test_key"

func TestMain(m *testing.M) {
	os.Setenv("TASKLOCK_ACCESS_KEY", key)
	drivertest.Main(m, func(place string) (driver.Store, error) {
		return httpstore.Open(context.Background(), place, nil)
	})
}

// guarded lets in whoever has the key, as the real server does.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.Header().Set(door.Untouched, "true")
			http.Error(w, `{"detail":"no such key"}`, http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// serve starts a server over a store, which it closes at the end.
func serve(t testing.TB, s driver.Store) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(guarded(door.Handler(s)))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		must(t, s.Close())
	})
	return server
}

// serveTLS is the same with TLS and HTTP/2. It returns the URL of the store.
func serveTLS(t testing.TB, s driver.Store) string {
	t.Helper()
	server := httptest.NewUnstartedServer(guarded(door.Handler(s)))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		must(t, s.Close())
	})
	return server.URL + "?ca=" + url.QueryEscape(authority(t, server))
}

// authority writes the certificate of a server to a file.
func authority(t testing.TB, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return path
}

func sqlite(t testing.TB) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(context.Background(), filepath.Join(t.TempDir(), "tasklock.db"), &sqlitestore.Options{Create: true})
	must(t, err)
	return s
}

// opened opens a store, which the caller closes.
func opened(t testing.TB, url string) *httpstore.Store {
	t.Helper()
	s, err := httpstore.Open(t.Context(), url, nil)
	must(t, err)
	return s
}

// open opens a store, which the test closes.
func open(t testing.TB, url string, o *httpstore.Options) *httpstore.Store {
	t.Helper()
	s, err := httpstore.Open(t.Context(), url, o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// onMemory is a store behind a server, and the same store without it.
func onMemory(t testing.TB) (*httpstore.Store, *memstore.Store) {
	t.Helper()
	s := memstore.New()
	return open(t, serve(t, s).URL, nil), s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(key string) driver.Write { return driver.Write{Key: key, Value: []byte(`{}`)} }

func write(key string) driver.Batch { return driver.Batch{Writes: []driver.Write{put(key)}} }

func get(t testing.TB, s driver.Store, key string) driver.Record {
	t.Helper()
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{key}})
	must(t, err)
	if len(snap.Records) == 0 {
		return driver.Record{}
	}
	return snap.Records[0]
}

// count is the counter, and what an increment leaves behind.
type count struct {
	N int `json:"n"`
}

// increment adds one to the counter, once for a nonce however often it is called.
// It goes on through every fault, for as long as the test lives.
func increment(ctx context.Context, st *store.Store, nonce string) error {
	for {
		_, err := st.Update(ctx, driver.Query{Keys: []string{"counter/a", "nonce/" + nonce}}, func(tx *store.Tx) error {
			done, err := store.Get[count](tx, "nonce/"+nonce)
			if err != nil || done.Exists() {
				return err
			}
			c, err := store.Get[count](tx, "counter/a")
			if err != nil {
				return err
			}
			c.Value.N++
			receipt := "event/" + rand.Text()
			tx.Receipt(receipt)
			return errors.Join(tx.Put("counter/a", c.Value), tx.Put("nonce/"+nonce, c.Value), tx.Put(receipt, c.Value))
		})
		if err == nil || driver.Refusal(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// counted requires that the counter is n.
func counted(t testing.TB, st *store.Store, n int) {
	t.Helper()
	must(t, st.View(t.Context(), driver.Query{}, func(tx *store.Tx) error {
		c, err := store.Get[count](tx, "counter/a")
		if err == nil && c.Value.N != n {
			t.Errorf("the counter is at %d after %d increments", c.Value.N, n)
		}
		return err
	}))
}
