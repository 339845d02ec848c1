package door

import (
	"encoding/json"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
)

// Encode is what goes over the wire.
func Encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cross sends a value over the wire.
func cross[T any](t testing.TB, v T) (out T) {
	t.Helper()
	if err := json.Unmarshal(Encode(t, v), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func CrossQuery(t testing.TB, q driver.Query) driver.Query { return cross(t, Asks(q)).driver() }
func CrossBatch(t testing.TB, b driver.Batch) driver.Batch { return cross(t, Sends(b)).driver() }
func CrossError(t testing.TB, err error) error             { return cross(t, sendProblem(err)).Err() }

func CrossSnapshot(t testing.TB, s driver.Snapshot) driver.Snapshot {
	out := cross(t, sendSnapshot(s)).Driver()
	for _, r := range s.Records {
		out.Records = append(out.Records, cross(t, sendRecord(r, s.Now)).Driver(out.Now))
	}
	return out
}
