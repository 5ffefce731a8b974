package session

import (
	"context"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/admission"
)

// A known is what the policies once made of the set, which never changes. It holds for as long as policies and
// revocation lists, which each call reads again, say the same. The bytes that run are those of the set whatever the
// working tree has; whether that differs, the stamps of its files tell once they were compared.
type known struct {
	trust  *admission.Trust
	advice cas.Digest  // what registries said about its bundles: see workspace.Advised
	ends   []time.Time // when manifests of bundles expire
	lock   *workspace.Lock
	view   *ai.View
	chains chain.Memory

	library chain.Memory // of tools that aren't in the set, and that rye chooses

	mu     sync.Mutex
	skills *Skills                      // nil: not read yet
	seen   map[model.Ref]*nofollow.Seen // what doesn't differ from the lock, by what was called
}

// maxSeen is for how many items a session remembers that they don't differ.
const maxSeen = 1 << 10

// learn returns what the policies of lock make of the set, and of what registries say about its bundles.
func (s *Session) learn(ctx context.Context, lock *workspace.Lock, advised *workspace.Advised) (*known, error) {
	s.mu.Lock()
	k := s.known
	s.mu.Unlock()
	trust := lock.Trust.Exam()
	if k.holds(trust, advised.ID) {
		lock.Listed = k.lock.Listed
		return k, nil
	}
	k = &known{trust: trust, advice: advised.ID, lock: lock}
	lock.AddBundles(s.set)
	for i := range lock.Old.Bundles {
		if b := s.set.Bundle(lock.Old.Bundles[i].ID); b != nil && !b.Expires.IsZero() {
			k.ends = append(k.ends, b.Expires)
		}
	}
	var err error
	asked := lock.Asked(ctx, lock.Dir)
	asked.Advice = advised.Of
	if k.view, err = s.set.View(ctx, asked, lock.Trust.Root.Side.Policy.MayOverride); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = k
	return k, nil
}

// holds reports whether what is known is what policies make of the set and of its registries' advice now.
func (k *known) holds(now *admission.Trust, advice cas.Digest) bool {
	if k == nil || k.advice != advice || !now.Says(k.trust) {
		return false
	}
	for _, end := range k.ends {
		if k.trust.Now.Before(end) != now.Now.Before(end) {
			return false
		}
	}
	return true
}

// unchanged reports whether the working tree is as it was when it was the same as the lock for an item.
func (k *known) unchanged(ref model.Ref) bool {
	k.mu.Lock()
	seen := k.seen[ref]
	k.mu.Unlock()
	return seen != nil && seen.Unchanged()
}

// same remembers that what was seen of the working tree is the same as the lock for an item.
func (k *known) same(ref model.Ref, seen *nofollow.Seen) {
	if !seen.Settled() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil || len(k.seen) >= maxSeen {
		k.seen = map[model.Ref]*nofollow.Seen{}
	}
	k.seen[ref] = seen
}
