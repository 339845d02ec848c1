package session

import (
	"reflect"
	"testing"
)

// A session has few fields. Commands get those that it was made from, and cannot set
// what it finds out itself: how a command differs is said by the function that it calls.
func TestFields(t *testing.T) {
	all := reflect.TypeFor[Session]()
	if n := all.NumField(); n > 12 {
		t.Errorf("%d fields, at most 12", n)
	}
	for i := range all.NumField() {
		if f := all.Field(i); f.IsExported() && !f.Anonymous {
			t.Errorf("%s is exported: commands could set it", f.Name)
		}
	}
}
