package door

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Handler serves a store. Whoever may call it can write any record. It calls the
// store once for each request and repeats nothing: an outcome that it does not know
// it does not tell, and the caller finds out.
func Handler(s driver.Store) http.Handler {
	h := handler{s}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ReadPath, h.read)
	mux.HandleFunc("POST "+CommitPath, h.commit)
	mux.HandleFunc("POST "+WaitPath, h.wait)
	return mux
}

type handler struct{ store driver.Store }

func (h handler) read(w http.ResponseWriter, r *http.Request) {
	var q Query
	if err := decode(w, r, &q); err != nil {
		answer(w, Snapshot{Problem: sendProblem(err)})
		return
	}
	snap, err := h.store.Read(r.Context(), q.driver())
	if err != nil {
		answer(w, Snapshot{Problem: sendProblem(err)})
		return
	}
	begin(w)
	p := &pacer{w: w, control: http.NewResponseController(w)}
	defer p.end()
	out := bufio.NewWriterSize(p, 32<<10)
	lines := json.NewEncoder(out)
	err = lines.Encode(sendSnapshot(snap))
	for i := 0; i < len(snap.Records) && err == nil; i++ {
		err = lines.Encode(sendRecord(snap.Records[i], snap.Now))
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the reader must not take a part for the whole
	}
}

func (h handler) commit(w http.ResponseWriter, r *http.Request) {
	var b Batch
	if err := decode(w, r, &b); err != nil {
		answer(w, Committed{Problem: sendProblem(err)})
		return
	}
	rev, err := h.store.Commit(r.Context(), b.driver())
	if err != nil {
		answer(w, Committed{Problem: sendProblem(err)})
		return
	}
	answer(w, Committed{Rev: rev})
}

func (h handler) wait(w http.ResponseWriter, r *http.Request) {
	var q Wait
	if err := decode(w, r, &q); err != nil {
		answer(w, Waited{Problem: sendProblem(err)})
		return
	}
	long := MaxWait
	if q.For > 0 {
		long = min(q.For, long)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(long + patience))
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	ctx, cancel := context.WithTimeout(r.Context(), long)
	defer cancel()
	switch err := h.store.Wait(ctx, list(q.Guards, Guard.driver)); {
	case err == nil:
		answer(w, Waited{Changed: true})
	case r.Context().Err() != nil: // the server stops, say, or nobody listens
		answer(w, Waited{Problem: sendProblem(context.Cause(r.Context()))})
	case ctx.Err() != nil: // the time is over
		answer(w, Waited{})
	default:
		answer(w, Waited{Problem: sendProblem(err)})
	}
}

// decode reads all of a request, or says why nothing was done about it.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxBody))
	in.DisallowUnknownFields()
	err := in.Decode(into)
	if err == nil {
		if _, more := in.Token(); more != io.EOF {
			err = errors.New("there is something after the object")
		}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fmt.Errorf("%w: a request of more than %d bytes", driver.ErrTooLarge, MaxBody)
	}
	if err != nil {
		return fmt.Errorf("%w: the server cannot read the request, perhaps it is older than this tasklock: %w", driver.ErrInvalid, err)
	}
	return nil
}

func begin(w http.ResponseWriter) {
	w.Header().Del(Untouched)
	w.Header().Set(Door, Version)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
}

// answer sends one line.
func answer(w http.ResponseWriter, v any) {
	begin(w)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone does not matter
}

// patience is how long a client may take for a part of an answer.
const patience = 30 * time.Second

// A pacer gives a client time for each part of an answer, not for all of it.
type pacer struct {
	w       io.Writer
	control *http.ResponseController
	writes  int
}

func (p *pacer) Write(b []byte) (int, error) {
	p.writes++
	_ = p.control.SetWriteDeadline(time.Now().Add(patience))
	return p.w.Write(b)
}

// end leaves no deadline to the next request on the connection.
func (p *pacer) end() {
	if p.writes > 1 {
		_ = p.control.Flush()
	}
	_ = p.control.SetWriteDeadline(time.Time{})
}
