package edge

import (
	"sync"
	"time"
)

// Bucket limits how often something happens: so many times a second, and twice as
// many at once after a pause. The zero Bucket is full.
type Bucket struct {
	mu   sync.Mutex
	used float64
	last time.Time
}

// Take reports whether it may happen once more.
func (b *Bucket) Take(perSecond float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.used = max(0, b.used-now.Sub(b.last).Seconds()*perSecond)
	b.last = now
	if b.used+1 > 2*perSecond {
		return false
	}
	b.used++
	return true
}
