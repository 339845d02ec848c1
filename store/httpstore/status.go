package httpstore

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/store/driver"
)

// A statusError is an answer that is not the store's: of the server before it asked
// the store, or of a proxy on the way.
type statusError struct {
	code  int
	text  string
	sure  bool // the server itself says that the store was not asked
	keyed bool // the request had a key
}

// refused reads such an answer.
func (l *line) refused(resp *http.Response, body io.Reader) *statusError {
	e := &statusError{code: resp.StatusCode, text: resp.Status, sure: resp.Header.Get(door.Untouched) != "", keyed: l.key != ""}
	var problem struct{ Detail string } // RFC 9457
	if b, err := io.ReadAll(io.LimitReader(body, 16<<10)); err == nil && json.Unmarshal(b, &problem) == nil && problem.Detail != "" {
		e.text += ": " + problem.Detail
	}
	switch version := resp.Header.Get(door.Door); {
	case version != "":
		e.text += ": the server speaks version " + version + ", this tasklock " + door.Version
	case resp.StatusCode == http.StatusOK:
		e.text += ", and not from a tasklock server"
	}
	if to := resp.Header.Get("Location"); to != "" {
		e.text += ": it leads to " + to + ", and the key does not go there; name the right server"
	}
	return e
}

func (e *statusError) Error() string {
	switch {
	case !e.denied():
		return "the answer is " + e.text
	case !e.keyed:
		return driver.ErrDenied.Error() + ": " + e.text + "; there is no access key: export " + keyEnv + "=…"
	}
	return driver.ErrDenied.Error() + ": " + e.text
}

func (e *statusError) denied() bool {
	return e.code == http.StatusUnauthorized || e.code == http.StatusForbidden
}

// Is says what the answer means to a reader.
func (e *statusError) Is(target error) bool {
	switch {
	case e.denied():
		return target == driver.ErrDenied
	case e.code == http.StatusRequestEntityTooLarge:
		return target == driver.ErrTooLarge
	}
	return e.sure && target == driver.ErrUntouched
}

// doubted is what an answer means to somebody who has sent a commit: only the server
// itself can say that nothing was changed.
func doubted(err error) error {
	if e, ok := errors.AsType[*statusError](err); ok && !e.sure {
		return errors.New(err.Error())
	}
	return err
}
