package main

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
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/exam"
)

// A locking is what a command works with that makes, checks or reads the lock of a project.
type locking struct {
	app       *app
	dir       string            // that rye.yaml and rye.lock stand in
	dotAI     string            // whose items are locked
	yaml      *ryeyaml.Project  // an empty one where there is no rye.yaml
	stands    *ryeyaml.Project  // the same as the file says it, while yaml is edited; nil where there is no file
	old       *lockfile.Lock    // nil: there is no rye.lock
	file      []byte            // of old
	allowUser bool              // items of the user's space may be pinned
	user      bool              // it is the user's own lock
	sides     []*lockfile.Lock  // of a merge that git left unfinished: two, of which one that can't be read is nil
	installed []lockfile.Bundle // that it may use
	state     cas.Digest        // when it was last asked whether that was found current
	trust     *trust
	found     *bundles
	sources   *sources.Sources
	registry  *registry.Registry
	here      *present       // instead of sources, where nothing is to be brought
	listed    listed         // what the manifests of its bundles list
	vendor    *vendor.Vendor // .ai/vendor, once somebody has looked; nil where there is none
	shown     *progress      // counts what is read of bundles; nil where nobody sees it
}

// locking opens the project with its lock. With conflict a lock in which git has left a merge unfinished is none.
func (a *app) locking(conflict bool) (*locking, error) {
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	if b.root.root == "" {
		_, err := a.project()
		return nil, cmp.Or(err, errNoProject)
	}
	l := &locking{app: a, dir: b.root.root, dotAI: b.root.dotAI(), yaml: &ryeyaml.Project{}, found: b}
	if b.root.marker == markerFile {
		if l.yaml, err = b.root.file(a.running()); err != nil {
			return nil, err
		}
		l.stands = l.yaml
	}
	return l, l.readLock(conflict)
}

// readLock reads rye.lock.
func (l *locking) readLock(conflict bool) (err error) {
	path := l.lockPath()
	if leadsOut(path) {
		return &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%q is a symbolic link that leads out of the project", path), Details: map[string]any{"path": path}}
	}
	l.file, err = readIfThere("the lock", path, lockfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.old, err = lockfile.Parse(l.file)
	if _, merge := errors.AsType[*lockfile.MergeError](err); merge && conflict {
		l.sides = mergedSides(l.file)
		return nil
	}
	return l.app.lockFault(path, err)
}

func (l *locking) lockPath() string { return filepath.Join(l.dir, lockfile.Name) }

// needLock refuses to go on without a lock.
func (l *locking) needLock() error {
	if l.old != nil {
		return nil
	}
	f := &fault.Error{Code: fault.NotLocked, Text: fmt.Sprintf("there is no %q in %q", lockfile.Name, l.dir), Err: fs.ErrNotExist,
		Hint: []string{l.lockCommand()}, Details: map[string]any{"path": l.lockPath()}}
	if n := l.countFirst(); n > 0 {
		f.Why = []string{fmt.Sprintf("%s of the first format (v1) in %s: the first rye lock holds what it pins against them",
			fault.Count(int64(n), "lock"), fault.Quote(filepath.Join(l.dotAI, "lockfiles")))}
		f.Details["v1_locks"] = n
	}
	return f
}

func (l *locking) close() {
	if l.vendor != nil {
		l.vendor.Close()
	}
	if l.sources != nil {
		if err := l.sources.Close(); err != nil {
			l.app.term.detail("what was fetched of repositories: %s", classify(err).Text)
		}
	}
	if l.found != nil {
		l.found.close()
	}
}

// open reads the policy, opens the store, and gets ready to bring bundles.
func (l *locking) open() (err error) {
	if l.trust, err = l.app.trust(); err != nil {
		return err
	}
	store, err := l.found.store(true)
	if err != nil {
		return err
	}
	o := sources.Options{
		Dir: l.dir, Requires: l.yaml.Requires, Store: store, Verify: bundle.VerifyOptions{Trust: l.exam()},
		Journal: l.app.lists().journal(), Now: l.app.now, Progress: func(n int64) { l.shown.Add(n) },
	}
	if !l.app.isOffline() {
		// Whoever wrote the project, or an index, wrote the addresses: what they may be is for the user's policy to say.
		client := web.New(web.Options{Stranger: true, Inside: l.trust.root.side.Policy.Sections().Inside, Again: func(err error, in time.Duration) { l.app.askedAgain(err, in) }})
		if o.Git, err = l.git(client); err != nil {
			return err
		}
		o.Fetch = client
	}
	l.sources = sources.New(o)
	from := registry.Options{Dir: l.dir, From: l.yaml.Packages, Store: store, Progress: o.Progress}
	if o.Fetch != nil {
		from.Fetch = o.Fetch
	}
	v, err := l.vendored()
	if v != nil {
		from.Vendored = v
	}
	l.registry = registry.New(from)
	return err
}

func (l *locking) exam() *exam.Trust { return l.trust.exam() }

// store is the store, once open has returned.
func (l *locking) store() *disk.Store { return l.found.open }

// view puts the project, and the user's space where it may count, over system spaces.
func (l *locking) view(ctx context.Context, system []*ai.Space) (*ai.View, *ai.Admitter, func(), error) {
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
	level, dirs := ai.Project, []string{l.dir}
	base := l.app.userBase()
	if l.user {
		level, dirs = ai.User, []string{base.value}
	}
	err := add(l.dotAI, level)
	switch {
	case err != nil || l.user:
	case l.allowUser && base.err == nil:
		dirs = append(dirs, base.value)
		err = add(userSpace(base).value, ai.User)
	case !l.allowUser:
		// What was once taken over from the user's space stays what it was, whoever's machine this is.
		var taken *ai.Space
		if taken, err = l.takenOver(ctx); taken != nil {
			spaces = append(spaces, taken)
		}
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	asked := l.asked(ctx, dirs...)
	v, err := ai.NewView(ctx, ai.Options{Spaces: append(slices.Clone(spaces), system...), Trust: asked, MayOverride: l.trust.root.side.Policy.MayOverride})
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	l.app.warnExtractors(v.Warnings())
	admit := ai.NewAdmitter(v, asked)
	admit.KeepTrees()
	return v, admit, done, nil
}

// request is what a lock of this project is to be made of.
func (l *locking) request(ctx context.Context) lock.Request {
	r := lock.Request{Project: l.yaml, Old: l.old, Pinned: l.pinned(ctx), Library: librarySpace(), View: l.view}
	if l.here != nil {
		r.Sources, r.Files = l.here, l.here.objects
	} else {
		r.Sources, r.Files, r.Packages = bringing{l.sources, &l.listed}, l.store(), l.registry
	}
	r.User, r.Installed = l.user, l.installed
	if l.enforces() {
		r.Toolchain = l.toolchain()
	}
	return r
}

// objects is where the bytes of the lock are: what is vendored, then the store if there is one. What is vendored is
// enough, whatever keeps the store from being read.
func (l *locking) objects() (lock.Source, error) {
	v, err := l.vendored()
	if err != nil {
		return nil, err
	}
	s, err := l.found.store(false)
	switch {
	case err == nil && v != nil:
		return lock.First(v, s), nil
	case err == nil:
		return s, nil
	case v != nil:
		l.app.term.detail("the store: %s", classify(err).Text)
		return v, nil
	case errors.Is(err, fs.ErrNotExist):
		return lock.First(), nil
	}
	return nil, err
}

func (l *locking) vendorDir() string { return filepath.Join(l.dotAI, "vendor") }

// vendored opens .ai/vendor, as it is when it is first looked at; nil where there is none.
func (l *locking) vendored() (_ *vendor.Vendor, err error) {
	if l.vendor == nil {
		l.vendor, err = vendor.Open(l.vendorDir())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l.vendor, err
}

// id is the digest of the lock's bytes.
func (l *locking) id() cas.Digest { return cas.Sum(l.file) }

// set is the lock with all that it names.
func (l *locking) set(ctx context.Context) (*lock.Set, error) {
	if err := l.needLock(); err != nil {
		return nil, err
	}
	objects, err := l.objects()
	if err != nil {
		return nil, err
	}
	return lock.NewSet(ctx, l.old, l.id(), lock.SetOptions{Objects: objects, Std: librarySpace()})
}

// write makes b the lock, unless it is that already. A reader finds the old one or the new one.
func (l *locking) write(b []byte) error {
	sweep(l.dir, l.app.now())
	if l.file != nil && bytes.Equal(b, l.file) {
		return nil
	}
	mode := fs.FileMode(0o777)
	if l.user {
		mode = 0o700 // the policy stands there as well, or will
	}
	if err := os.MkdirAll(l.dir, mode); err != nil {
		return err
	}
	d, err := confine(l.dir, mode)
	if err != nil {
		return err
	}
	defer d.close()
	// Somebody else's lock isn't overwritten with one that was made without it.
	if now, err := d.read(lockfile.Name, lockfile.MaxBytes); err != nil {
		return err
	} else if !bytes.Equal(now, l.file) {
		return &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("somebody else has changed %q meanwhile", l.lockPath()), Hint: []string{"rye lock"}}
	}
	if err := d.write(lockfile.Name, 0o644, l.file == nil, b); err != nil {
		return err
	}
	l.file = b
	return nil
}

// completeLocked offers what rye.yaml requires, or what the lock names: "locked" is all of it, "pinned" items, "bundles"
// what can be updated.
func (a *app) completeLocked(what string) (out []candidate) {
	l, err := a.locking(false)
	if err != nil {
		return nil
	}
	defer l.close()
	if what == "required" {
		for _, r := range l.yaml.Requires {
			out = append(out, candidate{r.ID, r.Text})
		}
		return out
	}
	if l.old == nil {
		return nil
	}
	if what != "pinned" {
		for _, b := range l.old.Bundles {
			out = append(out, candidate{b.ID, b.Version})
		}
	}
	if what == "bundles" {
		return append(out, candidate{lock.Library, "the library"})
	}
	for i := range l.old.Pins {
		p := &l.old.Pins[i]
		out = append(out, candidate{p.Ref.String(), p.From})
	}
	if what == "locked" {
		for _, p := range l.old.Artifacts {
			out = append(out, candidate{packageName(p), usedAsPackage})
		}
	}
	return slices.Compact(out) // a version has many wheels
}
