package host

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/file"
)

// A sets has the session for the lock as it is now.
type sets struct {
	open Open
	warn func(error) // a lock that can't be opened
	// changed gets each session that is opened. Optional.
	changed func(context.Context, *session.Session) error

	mu    sync.Mutex
	now   *held
	stamp stamp // of the lock when it was looked at last
}

// An Open opens a session for the lock as it is then.
type Open func(context.Context) (s *session.Session, done func() error, err error)

// A stamp identifies a version of a file. It is zero for a missing file.
type stamp struct {
	size int64
	time time.Time
	file os.FileInfo
}

func (s stamp) same(o stamp) bool {
	return s.size == o.size && s.time.Equal(o.time) && (s.file == nil) == (o.file == nil) &&
		(s.file == nil || os.SameFile(s.file, o.file))
}

func stampOf(path string) (s stamp) {
	if fi, err := os.Stat(path); err == nil {
		s = stamp{fi.Size(), fi.ModTime(), fi}
	}
	return s
}

// A held session is closed when it was replaced and no call has it any more.
type held struct {
	session *session.Session
	close   func() error
	calls   int
	old     bool
}

// take returns the session for a call, which calls done at its end.
func (s *sets) take(ctx context.Context) (_ *session.Session, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		if s.now, err = s.opens(ctx); err != nil {
			return nil, nil, err
		}
	} else if err := s.renew(ctx); err != nil {
		s.warn(fault.Wrap(err, "the set stays as it was: %v", err))
	}
	h := s.now
	h.calls++
	return h.session, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.calls--
		s.drop(h)
	}, nil
}

// renew opens the lock if it was replaced since it was looked at last. One that can't be opened isn't tried again.
func (s *sets) renew(ctx context.Context) error {
	seen := stampOf(s.now.session.LockPath())
	if seen.same(s.stamp) {
		return nil
	}
	other, err := s.opens(ctx)
	if err != nil {
		s.stamp = seen
		return err
	}
	s.retire()
	s.now = other
	return nil
}

// reload opens the lock as it is now.
func (s *sets) reload(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stamp = stamp{}
	return s.renew(ctx)
}

// opens opens a session, and remembers which lock it has.
func (s *sets) opens(ctx context.Context) (*held, error) {
	opened, done, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if s.changed != nil {
		if err := s.changed(ctx, opened); err != nil {
			return nil, errors.Join(err, done())
		}
	}
	s.stamp = stampOf(opened.LockPath())
	// One that was replaced meanwhile is opened with the next call.
	if b, err := osfile.ReadSmall(opened.LockPath(), file.MaxBytes); err == nil && cas.Sum(b) != opened.Set() {
		s.stamp = stamp{}
	}
	return &held{session: opened, close: done}, nil
}

// opened reports whether a session is open.
func (s *sets) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now != nil
}

// retire makes the session one that no further call gets.
func (s *sets) retire() {
	if s.now != nil {
		s.now.old = true
		s.drop(s.now)
		s.now = nil
	}
}

func (s *sets) drop(h *held) {
	if h.old && h.calls == 0 {
		if err := h.close(); err != nil {
			s.warn(err)
		}
	}
}

// close closes the session once no call has it.
func (s *sets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire()
}
