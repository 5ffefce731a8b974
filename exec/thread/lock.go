package thread

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// keepLock writes the session's lock into the directory of a new thread, before its record names it. The store keeps
// what that lock names until the first of related threads is pruned: all of them run under one lock, and are pruned
// together.
func (t *thread) keepLock(ctx context.Context) error {
	text, err := t.engine.Session.LockText()
	if err != nil || text == nil {
		return err
	}
	var h osfile.Hook
	if t.engine.Hook != nil {
		h = func(op, path string) error { return t.engine.Hook(op, path, nil) }
	}
	path := filepath.Join(t.record.lease.Dir, transcript.LockFile)
	if err := h.WriteFile(path, 0o600, false, osfile.BytesOf(text)); err != nil {
		return err
	}
	if t.family.parentID() == "" && (t.family.continues == "" || t.start.After != nil) {
		t.engine.Session.Lease(ctx, path)
	}
	return nil
}

// SessionOf returns the session in which the thread in a directory goes on: current, or one under the lock that the
// directory keeps if that isn't the lock of current. The caller closes it unless it is current. A directory that keeps
// no lock leaves it at current.
func SessionOf(ctx context.Context, current *session.Session, dir string) (*session.Session, error) {
	want, err := transcript.LockOf(dir)
	if err != nil || want.IsZero() || want == current.Set() {
		return current, nil // a record that can't be read is reported by what reads all of it
	}
	text, err := transcript.ReadLock(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return current, nil
	}
	if err != nil {
		return nil, err
	}
	return current.Under(ctx, text)
}

// Under returns the engine for the thread in a directory: like e, under the lock that the thread began with. The
// caller closes it; e stays open.
func (e *Engine) Under(ctx context.Context, dir string) (*Engine, error) {
	n := *e
	n.opened = nil
	var err error
	if n.Session, err = SessionOf(ctx, e.Session, dir); err != nil {
		return nil, err
	}
	if n.Session != e.Session {
		n.opened = []func() error{n.Session.Close}
	}
	return &n, nil
}
