//go:build linux

package torture

import (
	"context"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// postgres runs on one server that all tests share, each in a schema of its
// own, which the workers make.
var postgres = backend{
	name: "postgres", scheme: "postgres",
	open:   openPostgres,
	create: func(t testing.TB, _ string) string { return pgtest.Shared(t).Place() },
	damage: problems,
	race:   racePostgres,
	ttl:    2 * time.Second,
	tasks:  3,
	bugs:   []planted{{"sequence_revision", func(c *Config) { c.Tries = 50 }}},
	brief:  brief{modes: []Mode{Library}, bugs: []string{"sequence_revision"}},
}

// openPostgres opens a store; who comes while the server is away comes again.
func openPostgres(ctx context.Context, url string) (driver.Store, error) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		s, err := pgstore.Open(ctx, url, &pgstore.Options{Create: true})
		switch {
		case err == nil:
			return s, nil
		case driver.Refusal(err) || time.Since(began) > time.Minute:
			return nil, err
		}
	}
}

func racePostgres(c *Config) {
	switch {
	case full():
	case c.Mode == Binary:
		c.Rounds = 5
	default:
		c.Rounds = 12
	}
}

// TestServerRestarts: PostgreSQL restarts, crashes and ends all sessions again
// and again under sixteen workers who are killed and stopped themselves. One
// winner, tokens grow, every waiter is served.
func TestServerRestarts(t *testing.T) {
	for _, mode := range postgres.modes() {
		t.Run(string(mode), func(t *testing.T) { serverRestarts(t, mode) })
	}
}

func serverRestarts(t *testing.T, mode Mode) {
	server := pgtest.Start(t)
	b := postgres
	b.create = func(testing.TB, string) string { return server.Place() }
	b.race = func(c *Config) { c.withOutages(6) }
	c := b.run(t, mode)
	c.Seed = 5
	faults := 0
	c.Disturb, c.DisturbEvery = func() error {
		faults++
		switch faults % 3 {
		case 0:
			_, err := server.Query("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
			return err
		case 1:
			return server.Restart("fast")
		}
		return server.Restart("immediate")
	}, 500*time.Millisecond
	clean(t, c)
	if faults == 0 {
		t.Error("the server stayed up: the run has shown nothing")
	}
	t.Logf("%d times the server restarted, crashed or ended all sessions", faults)
}
