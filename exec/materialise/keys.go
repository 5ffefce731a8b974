package materialise

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
)

// Keys serialises work on a key among goroutines, so that the others find the first one's result. The zero Keys is
// ready to use.
type Keys struct {
	mu   sync.Mutex
	busy map[string]chan struct{}
}

// Take waits until no other goroutine works on a key. The caller calls done when it has finished.
func (k *Keys) Take(ctx context.Context, key string) (done func(), err error) {
	for {
		k.mu.Lock()
		busy := k.busy[key]
		if busy == nil {
			if k.busy == nil {
				k.busy = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			k.busy[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.busy, key)
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// newKey returns a random key.
func newKey() string { return strings.ToLower(rand.Text()) }

// isKey reports whether a name is a key: 64 hexadecimal digits, or random.
func isKey(name string) bool {
	return len(name) >= 26 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}
