package server

import (
	"cmp"
	"fmt"

	"github.com/tasklock/tasklock/internal/lease"
)

const (
	defaultPage = 100
	maxPage     = 500
)

// pageInput asks for a part of a list.
type pageInput struct {
	Limit int    `json:"limit"` // at most 500; left out: 100
	After string `json:"after"` // the next of the page before; left out: the first page
}

// size is how many a page has at most. A list is never sent as a whole: it may have a
// million lines.
func (in pageInput) size() (int, error) {
	if in.Limit < 0 || in.Limit > maxPage {
		return 0, &lease.InvalidError{What: "limit", Rule: fmt.Sprintf("must be between 1 and %d", maxPage)}
	}
	return cmp.Or(in.Limit, defaultPage), nil
}
