package task

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A long description has its own record, text/<id>: the completion of a task
// writes every task that depends on it, and all of them must fit into one commit.
// Rules work on tasks without their long texts; code that shows a task adds it.

const (
	textKind = "text/"

	maxInline = 1 << 10             // bytes of a description within the task's record
	maxSpread = driver.MaxBatch / 2 // bytes of the tasks that depend on one: the rest is for what they grow by
	maxPlace  = 900                 // bytes of section and id: both are part of a key in an index
)

// MaxText is how many bytes of a task's text a claim returns.
const MaxText = 8 << 10

// Text is the work to do: the title, and below it the description. It cuts off what
// exceeds [MaxText]; left is the number of bytes cut off.
func (t Task) Text() (text string, left int) {
	text = t.Title
	if t.Description != "" {
		text += "\n\n" + t.Description
	}
	if len(text) <= MaxText {
		return text, 0
	}
	cut := MaxText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut], len(text) - cut
}

type textRecord struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

// split returns a task as it is stored, and writes or deletes its long text.
func split(tx *store.Tx, before, t Task) (Task, error) {
	switch {
	case len(t.Description) > maxInline:
		text := textRecord{ID: t.ID, Description: t.Description}
		t.Description, t.LongText = "", true
		return t, tx.Put(textKind+t.ID, text)
	case t.Description != "":
		t.LongText = false
	}
	if before.LongText && !t.LongText {
		tx.Delete(textKind + t.ID)
	}
	return t, nil
}

// withTexts adds the long texts of tasks that will be shown.
func withTexts(tx *store.Tx, list ...*Task) error {
	var keys []string
	for _, t := range list {
		if t.LongText {
			keys = append(keys, textKind+t.ID)
		}
	}
	if err := tx.Want(keys...); err != nil {
		return err
	}
	for _, t := range list {
		if !t.LongText {
			continue
		}
		text, err := store.Peek[textRecord](tx, textKind+t.ID)
		if err != nil {
			return err
		}
		t.Description, t.LongText = text.Value.Description, false
	}
	return nil
}

// pointersTo points at each element of a list.
func pointersTo[T any](list []T) (out []*T) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// checkPlace refuses a task whose index entry would be too long a key: the tasks
// that it waits for could never be completed.
func checkPlace(section, id string) error {
	if n := len(section) + len(id); n > maxPlace {
		return &lease.InvalidError{What: "section and id", Rule: fmt.Sprintf("have %d bytes together, at most %d", n, maxPlace)}
	}
	return nil
}

// fits refuses a dependency whose completion could not be written in one commit
// with all tasks that depend on it.
func fits(tx *store.Tx, t, dep Task) error {
	const certain = maxSpread / driver.MaxValue // this many always fit
	if len(dep.Dependents) < certain {
		return nil
	}
	if err := tx.Want(taskKeys(dep.Dependents)...); err != nil {
		return err
	}
	size := t.size()
	for _, id := range dep.Dependents {
		other, err := store.Peek[Task](tx, taskKind+id)
		if err != nil {
			return err
		}
		size += other.Value.size()
	}
	if size > maxSpread {
		return &lease.InvalidError{What: "dependencies on " + dep.ID, Rule: fmt.Sprintf(
			"the %d tasks that depend on it have %d bytes, at most %d: put a task between it and some of them", len(dep.Dependents)+1, size, maxSpread)}
	}
	return nil
}

// size is the most that a change of the task writes: the record without its long
// text, and two index entries.
func (t Task) size() int {
	n := 450 + 2*(len(t.Section)+len(t.ID)) + len(t.Title) + min(len(t.Description), maxInline) + len(t.Progress) + len(t.BlockedReason)
	for _, list := range [][]string{t.DependsOn, t.WaitsFor, t.Dependents, t.Labels} {
		for _, s := range list {
			n += len(s) + 3
		}
	}
	if t.Result != nil {
		n += lease.MaxText
	}
	return n
}

// bulky stops a change of tasks from before there were long texts: their
// descriptions must leave their records first, or the change fits into no commit.
type bulky struct{ ids []string }

func (b *bulky) Error() string {
	return "the descriptions of dependent tasks are too long for one commit"
}

// notBulky refuses to write many tasks with long descriptions in their records.
func notBulky(list []Task) error {
	size := 0
	var long []string
	for _, t := range list {
		if len(t.Description) > maxInline {
			size += len(t.Description)
			long = append(long, t.ID)
		}
	}
	if size < driver.MaxBatch/4 {
		return nil
	}
	return &bulky{ids: long}
}

// slim moves each task's description into its own record, some in each commit.
func (b *bulky) slim(ctx context.Context, st *store.Store) error {
	const atOnce = 8
	for some := range slices.Chunk(b.ids, atOnce) {
		_, err := st.Update(ctx, query(taskKeys(some)...), func(tx *store.Tx) error {
			for _, id := range some {
				e, err := getTask(tx, id)
				if err != nil {
					return err
				}
				if !e.Exists() || len(e.Value.Description) <= maxInline {
					continue
				}
				stored, err := split(tx, e.Value, e.Value)
				if err != nil {
					return err
				}
				if err := tx.Put(e.Key, stored); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
