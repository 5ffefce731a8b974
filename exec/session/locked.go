package session

import (
	"context"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/gcroot"
)

// LockText returns the bytes of the lock that calls run from, whatever the file has by now; nil without a lock.
func (s *Session) LockText() ([]byte, error) {
	if s.set == nil {
		return nil, nil
	}
	if b := s.lock.Text(); b != nil {
		return b, nil
	}
	b, err := file.Append(nil, s.lock.Old)
	if err == nil && cas.Sum(b) != s.Set() {
		err = fault.New(fault.LockMismatch, "%q has changed since this session began", s.LockPath()).Try("rye lock")
	}
	return b, err
}

// Lease makes the store keep what the session's lock names for a copy of it at a path, until gcroot.Forget. Objects
// that only .ai/vendor has are not leased. A store that can't be written keeps no call from running.
func (s *Session) Lease(ctx context.Context, path string) {
	if s.set == nil {
		return
	}
	store, err := s.lock.OpenStore(false)
	if err != nil {
		return // all of it is in .ai/vendor
	}
	if err := s.lease(ctx, store, path); err != nil {
		s.w.Detail("the store doesn't keep what the lock names for "+path, err)
	}
}

func (s *Session) lease(ctx context.Context, store gcroot.Keeper, path string) error {
	objects, err := s.set.Objects(ctx)
	if err != nil {
		return err
	}
	ids := make([]cas.ID, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	batch, err := store.Batch(ctx)
	if err != nil {
		return err
	}
	missing, err := batch.Missing(ctx, ids)
	batch.Close()
	if err != nil {
		return err
	}
	elsewhere := map[cas.ID]bool{}
	for _, id := range missing {
		elsewhere[id] = true
	}
	return gcroot.Lock(ctx, store, path, slices.DeleteFunc(objects, func(o lock.Object) bool {
		return elsewhere[o.ID]
	}))
}

// Under opens a session of the same workspace on another lock, as --pinned does: whatever the working tree has, under
// the policies and revocations as they are now. The caller closes it before s.
func (s *Session) Under(ctx context.Context, text []byte) (*Session, error) {
	l, err := s.lock.With(text)
	if err != nil {
		return nil, err
	}
	o := s.o
	o.Mode = Mode{Pinned: true}
	n := &Session{w: s.w, o: o, lock: l, principal: s.principal, clock: s.clock}
	if err := n.hold(ctx); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}
