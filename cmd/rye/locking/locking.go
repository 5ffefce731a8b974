package locking

import (
	"bytes"
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
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages/fetch"
	ryeyaml "github.com/rye-build/rye/lock/project"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/trust"
)

// A Locking is what a command works with that makes, checks or reads the lock of a project.
type Locking struct {
	App       *cli.App
	Dir       string            // that rye.yaml and rye.lock stand in
	DotAI     string            // whose items are locked
	Yaml      *ryeyaml.Project  // an empty one where there is no rye.yaml
	Stands    *ryeyaml.Project  // the same as the file says it, while yaml is edited; nil where there is no file
	Old       *lockfile.Lock    // nil: there is no rye.lock
	File      []byte            // of old
	AllowUser bool              // items of the user's space may be pinned
	User      bool              // it is the user's own lock
	Sides     []*lockfile.Lock  // of a merge that git left unfinished: two, of which one that can't be read is nil
	Installed []lockfile.Bundle // that it may use
	State     cas.Digest        // when it was last asked whether that was found current
	Trust     *trust.Trust
	Found     *Bundles
	Sources   *sources.Sources
	Registry  *fetch.Registry
	Here      *present       // instead of sources, where nothing is to be brought
	Listed    listed         // what the manifests of its bundles list
	Vendor    *vendor.Vendor // .ai/vendor, once somebody has looked; nil where there is none
	Shown     *cli.Progress  // counts what is read of bundles; nil where nobody sees it
}

// OpenLocking opens the project with its lock. With conflict a lock in which git has left a merge unfinished is none.
func OpenLocking(a *cli.App, conflict bool) (*Locking, error) {
	b, err := OpenBundles(a)
	if err != nil {
		return nil, err
	}
	if b.Root.Root == "" {
		_, err := places.OpenProject(a)
		return nil, cmp.Or(err, workspace.ErrNoProject)
	}
	l := &Locking{App: a, Dir: b.Root.Root, DotAI: b.Root.DotAI(), Yaml: &ryeyaml.Project{}, Found: b}
	if b.Root.Marker == workspace.MarkerFile {
		if l.Yaml, err = b.Root.File(places.Running()); err != nil {
			return nil, err
		}
		l.Stands = l.Yaml
	}
	return l, l.ReadLock(conflict)
}

// ReadLock reads rye.lock.
func (l *Locking) ReadLock(conflict bool) (err error) {
	path := l.LockPath()
	if ai.Inside(path) != nil {
		return &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%q is a symbolic link that leads out of the project", path), Details: map[string]any{"path": path}}
	}
	l.File, err = osfile.ReadIfThere("the lock", path, lockfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.Old, err = lockfile.Parse(l.File)
	if _, merge := errors.AsType[*lockfile.MergeError](err); merge && conflict {
		l.Sides = mergedSides(l.File)
		return nil
	}
	return LockFault(l.App, path, err)
}

func (l *Locking) LockPath() string { return filepath.Join(l.Dir, lockfile.Name) }

// NeedLock refuses to go on without a lock.
func (l *Locking) NeedLock() error {
	if l.Old != nil {
		return nil
	}
	f := &fault.Error{Code: fault.NotLocked, Text: fmt.Sprintf("there is no %q in %q", lockfile.Name, l.Dir), Err: fs.ErrNotExist,
		Hint: []string{l.LockCommand()}, Details: map[string]any{"path": l.LockPath()}}
	if n := l.countV1(); n > 0 {
		f.Why = []string{fmt.Sprintf("%s of the first format (v1) in %s: the first rye lock holds what it pins against them",
			fault.Count(int64(n), "lock"), fault.Quote(filepath.Join(l.DotAI, "lockfiles")))}
		f.Details["v1_locks"] = n
	}
	return f
}

func (l *Locking) Close() {
	if l.Vendor != nil {
		l.Vendor.Close()
	}
	if l.Sources != nil {
		if err := l.Sources.Close(); err != nil {
			l.App.Term.Detail("what was fetched of repositories: %s", classify.Classify(err).Text)
		}
	}
	if l.Found != nil {
		l.Found.Close()
	}
}

// Open reads the policy, opens the store, and gets ready to bring bundles.
func (l *Locking) Open() (err error) {
	if l.Trust, err = places.OpenTrust(l.App); err != nil {
		return err
	}
	store, err := l.Found.Store(true)
	if err != nil {
		return err
	}
	o := sources.Options{
		Dir: l.Dir, Requires: l.Yaml.Requires, Store: store, Verify: bundle.VerifyOptions{Trust: l.Exam()},
		Journal: places.Lists(l.App).Journal(), Now: l.App.Now, Progress: func(n int64) { l.Shown.Add(n) },
	}
	if !l.App.IsOffline() {
		// Whoever wrote the project, or an index, wrote the addresses: what they may be is for the user's policy to say.
		client := web.New(web.Options{Stranger: true, Inside: l.Trust.Root.Side.Policy.Sections().Inside, Again: func(err error, in time.Duration) { places.AskedAgain(l.App, err, in) }})
		if o.Git, err = l.git(client); err != nil {
			return err
		}
		o.Fetch = client
	}
	l.Sources = sources.New(o)
	from := fetch.Options{Dir: l.Dir, From: l.Yaml.Packages, Store: store, Progress: o.Progress}
	if o.Fetch != nil {
		from.Fetch = o.Fetch
	}
	v, err := l.Vendored()
	if v != nil {
		from.Vendored = v
	}
	l.Registry = fetch.New(from)
	return err
}

func (l *Locking) Exam() *exam.Trust { return l.Trust.Exam() }

// Store is the store, once open has returned.
func (l *Locking) Store() *disk.Store { return l.Found.open }

// View puts the project, and the user's space where it may count, over system spaces.
func (l *Locking) View(ctx context.Context, system []*ai.Space) (*ai.View, *ai.Admitter, func(), error) {
	var spaces []*ai.Space
	done := func() {
		for _, s := range spaces {
			s.Close()
		}
	}
	add := func(dir string, level ai.Level) error {
		s, err := ai.OpenDir(dir, level.String(), level)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			spaces = append(spaces, s)
		}
		return err
	}
	level, dirs := ai.Project, []string{l.Dir}
	base := l.App.UserBase()
	if l.User {
		level, dirs = ai.User, []string{base.Value}
	}
	err := add(l.DotAI, level)
	switch {
	case err != nil || l.User:
	case l.AllowUser && base.Err == nil:
		dirs = append(dirs, base.Value)
		err = add(cli.UserSpace(base).Value, ai.User)
	case !l.AllowUser:
		// What was once taken over from the user's space stays what it was, whoever's machine this is.
		var taken *ai.Space
		if taken, err = l.TakenOver(ctx); taken != nil {
			spaces = append(spaces, taken)
		}
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	asked := l.Asked(ctx, dirs...)
	v, err := ai.NewView(ctx, ai.Options{Spaces: append(slices.Clone(spaces), system...), Trust: asked, MayOverride: l.Trust.Root.Side.Policy.MayOverride})
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	WarnExtractors(l.App, v.Warnings())
	admit := ai.NewAdmitter(v, asked)
	admit.KeepTrees()
	return v, admit, done, nil
}

// Objects is where the bytes of the lock are: what is vendored, then the store if there is one. What is vendored is
// enough, whatever keeps the store from being read.
func (l *Locking) Objects() (lock.Source, error) {
	v, err := l.Vendored()
	if err != nil {
		return nil, err
	}
	s, err := l.Found.Store(false)
	switch {
	case err == nil && v != nil:
		return lock.First(v, s), nil
	case err == nil:
		return s, nil
	case v != nil:
		l.App.Term.Detail("the store: %s", classify.Classify(err).Text)
		return v, nil
	case errors.Is(err, fs.ErrNotExist):
		return lock.First(), nil
	}
	return nil, err
}

func (l *Locking) VendorDir() string { return filepath.Join(l.DotAI, "vendor") }

// Vendored opens .ai/vendor, as it is when it is first looked at; nil where there is none.
func (l *Locking) Vendored() (_ *vendor.Vendor, err error) {
	if l.Vendor == nil {
		l.Vendor, err = vendor.Open(l.VendorDir())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l.Vendor, err
}

// Id is the digest of the lock's bytes.
func (l *Locking) Id() cas.Digest { return cas.Sum(l.File) }

// Set is the lock with all that it names.
func (l *Locking) Set(ctx context.Context) (*lock.Set, error) {
	if err := l.NeedLock(); err != nil {
		return nil, err
	}
	objects, err := l.Objects()
	if err != nil {
		return nil, err
	}
	return lock.NewSet(ctx, l.Old, l.Id(), lock.SetOptions{Objects: objects, Std: LibrarySpace()})
}

// Write makes b the lock, unless it is that already. A reader finds the old one or the new one.
func (l *Locking) Write(b []byte) error {
	osfile.Sweep(l.Dir, l.App.Now())
	if l.File != nil && bytes.Equal(b, l.File) {
		return nil
	}
	mode := fs.FileMode(0o777)
	if l.User {
		mode = 0o700 // the policy stands there as well, or will
	}
	if err := os.MkdirAll(l.Dir, mode); err != nil {
		return err
	}
	d, err := osfile.OpenDir(l.Dir, mode)
	if err != nil {
		return err
	}
	defer d.Close()
	// Somebody else's lock isn't overwritten with one that was made without it.
	if now, err := d.Read(lockfile.Name, lockfile.MaxBytes); err != nil {
		return err
	} else if !bytes.Equal(now, l.File) {
		return &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("somebody else has changed %q meanwhile", l.LockPath()), Hint: []string{"rye lock"}}
	}
	if err := d.Write(lockfile.Name, 0o644, l.File == nil, b); err != nil {
		return err
	}
	l.File = b
	return nil
}

// CompleteLocked offers what rye.yaml requires, or what the lock names: "locked" is all of it, "pinned" items, "bundles"
// what can be updated.
func CompleteLocked(a *cli.App, what string) (out []cli.Candidate) {
	l, err := OpenLocking(a, false)
	if err != nil {
		return nil
	}
	defer l.Close()
	if what == "required" {
		for _, r := range l.Yaml.Requires {
			out = append(out, cli.Candidate{Value: r.ID, Help: r.Text})
		}
		return out
	}
	if l.Old == nil {
		return nil
	}
	if what != "pinned" {
		for _, b := range l.Old.Bundles {
			out = append(out, cli.Candidate{Value: b.ID, Help: b.Version})
		}
	}
	if what == "bundles" {
		return append(out, cli.Candidate{Value: lock.Library, Help: "the library"})
	}
	for i := range l.Old.Pins {
		p := &l.Old.Pins[i]
		out = append(out, cli.Candidate{Value: p.Ref.String(), Help: p.From})
	}
	if what == "locked" {
		for _, p := range l.Old.Artifacts {
			out = append(out, cli.Candidate{Value: PackageName(p), Help: UsedAsPackage})
		}
	}
	return slices.Compact(out) // a version has many wheels
}
