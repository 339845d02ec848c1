//go:build linux

package torture

import "time"

type binary struct{ *worker }

func (b *binary) acquire(o *op, wait time.Duration) grant   { panic("not yet") }
func (b *binary) probe(j *journal, key string, token int64) {}
