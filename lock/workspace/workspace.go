package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/trust"
)

// Options configures a workspace. The zero value is for a program without a user to talk to.
type Options struct {
	Now       func() time.Time                 // nil: time.Now
	Offline   bool                             // nothing is fetched
	PlainHTTP bool                             // every host may have addresses with http://
	AllowUser bool                             // the user's space counts in a project with rye.yaml too
	Bundles   []lockfile.Bundle                // used instead of the lock's, while a new lock is made
	Git       func(project string) git.Options // how to run git; nil: git repositories are no sources
	// Token returns the token with which the registry of a private namespace is read, "" for none. typed: the user has
	// typed its host. nil: there is none.
	Token func(ctx context.Context, registry string, typed bool) (string, error)
	// OCI configures requests to registries: its Credential, Mirrors and Left count.
	OCI oci.Options
	// Parts verifies the items of signed plugins. Nil: they aren't compared with the plugins' parts.
	Parts bundle.PartsVerifier

	// Reports for the user. Any of them may be nil; Open replaces nil by a no-op, except for Extractors and Retried.
	Warn       func(what string, err error)      // something is left out; err may be nil
	Detail     func(what string, err error)      // only useful for debugging
	Extractors func(ignored []*ai.ItemError)     // extractors that don't count
	Retried    func(err error, in time.Duration) // rye asks a server again
	Show       func(path string) string          // how messages write a path
}

// A Workspace is a project with its user's files, or the user's files outside of projects. It reads lazily: the
// methods that return the store, the lock and the policies open them. It is safe for concurrent use.
type Workspace struct {
	Paths
	Options
	Root Project // zero outside of projects

	mu     sync.Mutex  // guards the fields below
	store  *disk.Store // nil until it is needed
	opened []io.Closer
	left   atomic.Bool
}

// LeftOut reports whether the user was warned that something is left out.
func (w *Workspace) LeftOut() bool { return w.left.Load() }

// Open opens the project at p.Dir, or the user's space if p.Dir is in no project. The caller closes it.
func Open(_ context.Context, p Paths, o Options) (*Workspace, error) {
	w := Unread(p, o)
	root, err := w.OpenProject()
	if err != nil && !errors.Is(err, ErrNoProject) {
		return nil, err
	}
	w.Root = root
	return w, nil
}

// Unread returns a workspace without searching for its project.
func Unread(p Paths, o Options) *Workspace {
	if o.Now == nil {
		o.Now = time.Now
	}
	workspace := &Workspace{Paths: p, Options: o}
	workspace.Warn = func(what string, err error) {
		if workspace.left.Store(true); o.Warn != nil {
			o.Warn(what, err)
		}
	}
	if workspace.Detail == nil {
		workspace.Detail = func(string, error) {}
	}
	if workspace.Show == nil {
		workspace.Show = func(path string) string { return path }
	}
	workspace.policies = new(trust.Reader)
	return workspace
}

// Close closes everything that the workspace opened. A second call does nothing.
func (w *Workspace) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.opened {
		c.Close()
	}
	w.opened = nil
	if w.store != nil {
		w.store.Close()
		w.store = nil
	}
}

// Keep closes c with the workspace.
func (w *Workspace) Keep(c io.Closer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened = append(w.opened, c)
}

// DiskStore returns the store if it is open, else nil.
func (w *Workspace) DiskStore() *disk.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store
}

// OpenStore opens the store once. With write it creates a missing store.
func (w *Workspace) OpenStore(write bool) (*disk.Store, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store != nil {
		return w.store, nil
	}
	s, err := w.Paths.Store.Open(disk.Options{Create: write, Now: w.Now})
	if v, ok := errors.AsType[*disk.VersionError](err); ok && !write && v.Readable() {
		s, err = w.Paths.Store.Open(disk.Options{ReadOnly: true, Now: w.Now})
	}
	if err == nil {
		w.store = s
	}
	return s, err
}

// Open opens the place as a store.
func (p Place) Open(o disk.Options) (*disk.Store, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := disk.Open(p.Path, o)
	if errors.Is(err, fs.ErrNotExist) && !o.Create {
		return nil, fault.New(fault.NotFound, "no store at %q (%s)", p.Path, p.Origin).From(err).Try("rye store put .")
	}
	return s, err
}

func (w *Workspace) note(format string, args ...any) { w.Warn(fmt.Sprintf(format, args...), nil) }

// Journal returns the record of versions that must not be rolled back, or nil without a directory for it.
func (w *Workspace) Journal() *rollback.Journal {
	if w.State.Err != nil {
		return nil
	}
	return &rollback.Journal{Path: filepath.Join(w.State.Path, "rollback")}
}
