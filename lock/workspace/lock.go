package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages/fetch"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/relock"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/trust"
)

// A Lock is the lock of a project, or the user's own, together with the sources and stores needed to make, check and
// read it.
type Lock struct {
	*Workspace
	Dir       string            // the directory of rye.yaml and rye.lock
	DotAI     string            // the .ai whose items are locked
	Yaml      *ryeyaml.Project  // empty without a rye.yaml
	Stands    *ryeyaml.Project  // rye.yaml as the file has it, while Yaml is edited; nil without a file
	Old       *lockfile.Lock    // nil without a rye.lock
	id        cas.Digest        // the digest of Old's file; zero without one
	User      bool              // true for the user's own lock
	Sides     []*lockfile.Lock  // the two sides of an unfinished git merge; an unreadable side is nil
	Installed []lockfile.Bundle // the installed bundles that the user's lock may use
	Trust     *trust.Trust      // set once the policy is read
	Sources   *sources.Sources
	Registry  *fetch.Registry
	Into      install.Store     // the store as Sources and Registry see it
	Here      *present          // instead of Sources, where nothing is fetched
	Listed    *listed           // the items that the manifests of its bundles list
	Vendor    *vendor.Vendor    // .ai/vendor once opened; nil without one
	Progress  func(int64)       // counts the bytes read of bundles; may be nil
	Before    time.Time         // versions in registries that are newer are left out; zero: none
	Young     *young            // what that left out
	Archives  *sources.Archives // that the command has read with other locks; may be nil
	Typed     []string          // hosts that the user has typed as a source, as in "inside:" of a policy
}

// OpenLock opens the project's lock. With conflict, a lock with an unfinished git merge in it counts as missing.
func (w *Workspace) OpenLock(conflict bool) (*Lock, error) {
	if w.Root.Root == "" {
		_, err := w.OpenProject()
		return nil, cmp.Or(err, ErrNoProject)
	}
	l := w.LockIn(w.Root.Root, w.Root.DotAI())
	if w.Root.Marker == MarkerFile {
		var err error
		if l.Yaml, err = w.Root.File(w.Version); err != nil {
			return nil, err
		}
		l.Stands = l.Yaml
	}
	return l, l.ReadLock(conflict)
}

// LockIn returns the unread lock of a directory.
func (w *Workspace) LockIn(dir, dotAI string) *Lock {
	return &Lock{Workspace: w, Dir: dir, DotAI: dotAI, Yaml: &ryeyaml.Project{}, Listed: new(listed),
		Young: new(young)}
}

// ReadLock reads rye.lock.
func (l *Lock) ReadLock(conflict bool) (err error) {
	path := l.LockPath()
	if ai.Inside(path) != nil {
		return fault.New(fault.Config, "%q is a symbolic link that leads out of the project", path).On("path", path)
	}
	b, err := osfile.ReadIfThere("the lock", path, lockfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.id = cas.Sum(b)
	l.Old, err = lockfile.Parse(b)
	if _, merge := errors.AsType[*lockfile.MergeError](err); merge && conflict {
		l.Sides = mergedSides(b)
		return nil
	}
	return l.LockFault(path, err)
}

func (l *Lock) LockPath() string { return filepath.Join(l.Dir, lockfile.Name) }

// With is the lock with other bytes than those of its file, such as those that it had before. The caller closes it; l
// stays open.
func (l *Lock) With(text []byte) (*Lock, error) {
	old, err := lockfile.Parse(text)
	if err != nil {
		return nil, l.LockFault(l.LockPath(), err)
	}
	return &Lock{Workspace: l.Workspace, Dir: l.Dir, DotAI: l.DotAI, Yaml: l.Yaml, Stands: l.Stands, Old: old,
		id: cas.Sum(text), User: l.User,
		Listed: new(listed)}, nil
}

// NeedLock returns an error if the lock is missing.
func (l *Lock) NeedLock() error {
	if l.Old != nil {
		return nil
	}
	f := fault.New(fault.NotLocked, "no %s in %q", lockfile.Name, l.Dir).From(fs.ErrNotExist).Try(l.LockCommand()).
		On("path", l.LockPath())
	if n := l.countV1(); n > 0 {
		f.Why = []string{
			fmt.Sprintf("%s of the first format (v1) in %s: the first rye lock holds what it pins against them",
				fault.Count(int64(n), "lock"), fault.Quote(filepath.Join(l.DotAI, "lockfiles")))}
		f.Details["v1_locks"] = n
	}
	return f
}

// Close closes everything that the lock has opened, but not its workspace.
func (l *Lock) Close() {
	if l.Vendor != nil {
		l.Vendor.Close()
	}
	if l.Sources != nil {
		if err := l.Sources.Close(); err != nil {
			l.Detail("closing the git repositories", err)
		}
	}
}

// Current reads the lock's policies again and returns the lock with them. The caller closes it; l stays open.
func (l *Lock) Current() (*Lock, error) {
	n := &Lock{Workspace: l.Workspace, Dir: l.Dir, DotAI: l.DotAI, Yaml: l.Yaml, Stands: l.Stands, Old: l.Old,
		id: l.id, User: l.User,
		Listed: new(listed)}
	var err error
	n.Trust, err = n.Policy()
	return n, err
}

// Open reads the policy, opens the store and connects the sources of bundles.
func (l *Lock) Open() (err error) {
	if l.Trust, err = l.Trusting(); err != nil {
		return err
	}
	store, err := l.OpenStore(true)
	if err != nil {
		return err
	}
	return l.connect(store)
}

// Reread makes the sources verify stored objects before relying on them, so that damaged objects are fetched again.
// It reports whether this is the first call.
func (l *Lock) Reread() (bool, error) {
	if l.Rereads() || l.Sources == nil {
		return false, nil
	}
	if err := l.Sources.Close(); err != nil {
		return false, err
	}
	return true, l.connect(careful{disk.Rereading{Store: l.DiskStore()}})
}

// Rereads reports whether Reread has been called.
func (l *Lock) Rereads() bool {
	_, is := l.Into.(careful)
	return is
}

// A careful store counts damaged objects as missing.
type careful struct{ disk.Rereading }

// Missing implements cas.Misser.
func (s careful) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	b, err := s.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.Missing(ctx, ids)
}

// connect prepares fetching bundles and packages into a store.
func (l *Lock) connect(store install.Store) (err error) {
	if l.State.Err != nil {
		return l.State.Err
	}
	l.Into = store
	options := sources.Options{
		Dir: l.Dir, Requires: l.Yaml.Requires, Store: store, Archives: l.Archives,
		Verify:  bundle.VerifyOptions{Trust: l.Exam(), Parts: l.Parts},
		Journal: l.Journal(), Now: l.Now, Progress: func(n int64) {
			if l.Progress != nil {
				l.Progress(n)
			}
		},
		Registries: l.Yaml.Registries, Before: l.Before, Young: l.Young.add, Locked: func(id string) *lockfile.Bundle {
			if l.Old == nil {
				return nil
			}
			return l.Old.Bundle(id)
		},
	}
	if len(options.Registries) > 0 {
		if options.Witnesses, err = l.witnesses(l.DotAI); err != nil {
			return err
		}
	}
	if !l.Offline {
		client := l.Web(l.Trust)
		if options.Git, err = l.git(client); err != nil {
			return err
		}
		options.Fetch, options.OCI = client, l.OCI
		options.OCI.Transport, options.OCI.PlainHTTP, options.OCI.Again = client.Transport(), l.PlainHTTP, l.Retried
	}
	image := func(r ryeyaml.Requirement) bool { _, is := r.Source.OCI(); return is }
	if l.Cache.Err == nil {
		options.Spool = filepath.Join(l.Cache.Path, "oci")
	} else if slices.ContainsFunc(l.Yaml.Requires, image) {
		return l.Cache.Err
	}
	l.Sources = sources.New(options)
	from := fetch.Options{Dir: l.Dir, From: l.Yaml.Packages, Store: store, Progress: options.Progress}
	if options.Fetch != nil {
		from.Fetch = options.Fetch
	}
	v, err := l.Vendored()
	if v != nil {
		from.Vendored = v
	}
	l.Registry = fetch.New(from)
	return err
}

// Web returns a client for addresses that the project or an index chose: those inside this network are allowed that
// the user's policy lists, or that the user has typed.
func (l *Lock) Web(t *trust.Trust) *web.Client {
	return web.New(web.Options{Stranger: true, PlainHTTP: l.PlainHTTP, Again: l.Retried,
		Inside: slices.Concat(t.Root.Side.Policy.Sections().Inside, l.Typed), Token: l.token})
}

// token returns the token for an address: that of the private namespace's registry in rye.yaml which it is below.
func (l *Lock) token(ctx context.Context, address string) (string, error) {
	at, private := registry.PrivateOf(address)
	named := func(r ryeyaml.Registry) bool { return r.URL == at }
	if l.Token == nil || !private || !slices.ContainsFunc(l.Yaml.Registries, named) {
		return "", nil
	}
	return l.Token(ctx, at, slices.Contains(l.Typed, ryeyaml.RegistryAt(at).Host()))
}

func (l *Lock) Exam() *admission.Trust { return l.Trust.Exam() }

// View returns the project, and the user's space where it may count, over system spaces. The caller calls done.
func (l *Lock) View(ctx context.Context, system []*ai.Space) (_ *ai.View, _ *ai.Admitter, done func(), err error) {
	return l.view(ctx, nil, system)
}

func (l *Lock) view(ctx context.Context, seen *nofollow.Seen, system []*ai.Space) (_ *ai.View, _ *ai.Admitter,
	done func(), err error) {
	var spaces []*ai.Space
	closeAll := func() {
		for _, s := range spaces {
			s.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	add := func(s *ai.Space, err error) error {
		if s != nil {
			spaces = append(spaces, s)
		}
		return err
	}
	open := func(dir string, level ai.Level) error {
		if seen != nil {
			seen.Path(dir)
		}
		s, err := openSpace(dir, level)
		if s != nil && seen != nil {
			s.FS.(*nofollow.FS).Note(seen, dir)
		}
		return add(s, err)
	}
	level, dirs := ai.Project, []string{l.Dir}
	if l.User {
		level, dirs = ai.User, []string{l.Paths.User.Path}
	}
	err = open(l.DotAI, level)
	switch {
	case err != nil || l.User:
	case !l.AllowUser:
		// Items taken over from the user's space stay the same on every machine.
		err = add(l.TakenOver(ctx))
	case l.Paths.User.Err == nil:
		dirs = append(dirs, l.Paths.User.Path)
		err = open(l.UserSpace().Path, ai.User)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	v, admit, err := l.OpenView(ctx, l.Trust, l.Asked(ctx, dirs...), slices.Concat(spaces, system)...)
	if err != nil {
		return nil, nil, nil, err
	}
	admit.KeepTrees()
	return v, admit, closeAll, nil
}

// Objects returns the source of the lock's objects: .ai/vendor, then the store if there is one. If .ai/vendor is
// complete, an unreadable store doesn't matter.
func (l *Lock) Objects() (lock.Source, error) {
	vendor, err := l.Vendored()
	if err != nil {
		return nil, err
	}
	s, err := l.OpenStore(false)
	switch {
	case err == nil && vendor != nil:
		return lock.First(vendor, s), nil
	case err == nil:
		return s, nil
	case vendor != nil:
		l.Detail("the store", err)
		return vendor, nil
	case errors.Is(err, fs.ErrNotExist):
		return lock.First(), nil
	}
	return nil, err
}

func (l *Lock) VendorDir() string { return filepath.Join(l.DotAI, "vendor") }

// Vendored opens .ai/vendor once and returns it as it was then, or nil if it is missing.
func (l *Lock) Vendored() (_ *vendor.Vendor, err error) {
	if l.Vendor == nil {
		l.Vendor, err = vendor.Open(l.VendorDir())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l.Vendor, err
}

// Id returns the digest of the lock's bytes, or zero without a lock. The bytes aren't kept: a lock of 100,000 items
// has 44 MB.
func (l *Lock) Id() cas.Digest { return l.id }

// Text reads the lock's bytes again, and returns nil if they have changed since.
func (l *Lock) Text() []byte {
	if b, err := osfile.ReadIfThere("the lock", l.LockPath(), lockfile.MaxBytes); err == nil && cas.Sum(b) == l.id {
		return b
	}
	return nil
}

// Set returns the lock with all objects that it names.
func (l *Lock) Set(ctx context.Context) (*lock.Set, error) {
	if err := l.NeedLock(); err != nil {
		return nil, err
	}
	objects, err := l.Objects()
	if err != nil {
		return nil, err
	}
	return lock.NewSet(ctx, l.Old, l.Id(), SetOptions(objects))
}

// Write replaces the lock with a new one. A reader finds the old lock or the new one.
func (l *Lock) Write(made *relock.Made) error {
	osfile.Sweep(l.Dir, l.Now())
	if made.ID == l.id {
		return nil
	}
	mode := fs.FileMode(0o777)
	if l.User {
		mode = 0o700 // the policy is or will be in the same directory
	}
	if err := os.MkdirAll(l.Dir, mode); err != nil {
		return err
	}
	folder, err := osfile.OpenDir(l.Dir, mode)
	if err != nil {
		return err
	}
	defer folder.Close()
	// A lock that another process has written meanwhile isn't overwritten.
	if now, err := folder.Read(lockfile.Name, lockfile.MaxBytes); err != nil {
		return err
	} else if (now != nil || !l.id.IsZero()) && cas.Sum(now) != l.id {
		return fault.New(fault.Conflict, "another process changed %q meanwhile", l.LockPath()).Try("rye lock")
	}
	if err := folder.WriteTo(lockfile.Name, 0o644, l.id.IsZero(), made.Write); err != nil {
		return err
	}
	l.id = made.ID
	return nil
}
