// Package relock is the maker of locks. It selects versions if the requirements changed, brings missing bundles into
// the store, and pins everything that the roots reach. It writes no file.
//
// How a lock goes through here: Make selects the bundles (choose, which returns the old ones if they are settled,
// else calls chooseHeld and package resolve). bring fetches and verifies them, dependencies first. Package closure
// pins the items, toolchain and artifacts pin programs and packages, and sameLibrary refuses unrequested changes of
// the library. Make returns a Made, whose Write the caller uses.
//
// A bundle from a repository of git stays at the commit that is locked, even if its branch or tag moves. It changes
// if an update is requested, if rye.yaml names another place, revision or range, or if the other bundles need a newer
// version. With a Toolchain, programs are pinned for this platform; lines of other platforms stay, and so do those of
// programs that aren't on this machine. Set.Program finds a line.
//
// Packages that tools list stay as in the old lock while the list is unchanged. Packages that are no longer listed
// are removed. Two tools may list two versions of a package, but not two files for one name.
package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
)

// Sources provides bundles, as *source.Sources does.
type Sources interface {
	resolve.Sources
	// Manifest returns the manifest of a version, and its source.
	Manifest(ctx context.Context, id, version string) (cas.Digest, project.Source, error)
	// Logged returns the log of a registry that has a version from this source, and the number of its entry there; ""
	// for other sources.
	Logged(ctx context.Context, id, version string, from project.Source) (log string, leaf int64, err error)
	// Requires returns a bundle's requirements, from the store if possible.
	Requires(ctx context.Context, want file.Bundle) ([]manifest.Require, error)
	// Bring brings a bundle into the store, complete and verified. below are the spaces of the bundles that it
	// requires, and the library.
	Bring(ctx context.Context, want file.Bundle, below []*ai.Space) (*bundle.Bundle, error)
}

// A Request is the input of Make: what to lock, and what may change.
type Request struct {
	Project   *project.Project // from rye.yaml
	Old       *file.Lock       // nil without an existing lock
	Sides     []*file.Lock     // the locks of a merge, if Old was made of them; nil for an unreadable one
	Update    []string         // bundles to raise to the newest allowed version; may include lock.Library
	UpdateAll bool
	Resolve   bool // select versions again even if the requirements are those of Old
	Env
}

// An Env holds the services that making a lock needs.
type Env struct {
	Sources Sources
	Files   cas.Getter // the store that Sources brings bundles to
	Pinned  *lock.Set  // Old with its objects, used if only a bundle's pinned items are available; may be nil
	Library *ai.Space
	// Ready runs with the selected bundles, once they are available and before any item is read. Optional.
	Ready func(bundles []file.Bundle) error
	// View puts the project's and the user's spaces over the system spaces. The caller calls done.
	View func(ctx context.Context, system []*ai.Space) (view *ai.View, admit *ai.Admitter, done func(), err error)
	// gets the bytes of pinned items of the project and the user's space; nil: they aren't stored
	Store     closure.Store
	Packages  Packages  // nil: a package that isn't in Old is an error
	Toolchain Toolchain // finds the programs to pin; nil: programs stay as in Old
}

// A Made is a new lock, and how it was made.
type Made struct {
	Lock    *file.Lock
	ID      cas.Digest // of its file
	Changes []file.Change
	Closure *closure.Closure
	Bundles []*bundle.Bundle // in the order of Lock.Bundles
	Unfound []error          // programs missing on this machine
	Unasked []string         // packages whose changed list allows files that need a registry, and none was available
}

// Write writes the file of a new lock.
func (m *Made) Write(w io.Writer) error {
	h := cas.NewHasher()
	if err := file.Write(io.MultiWriter(w, h), m.Lock); err != nil || h.Digest() == m.ID {
		return err
	}
	return fmt.Errorf("the new %s isn't the one that was checked, %s", file.Name, m.ID)
}

// Make selects versions if the requirements changed, brings missing bundles into the store, and pins everything that
// the roots reach. It writes no file.
func Make(ctx context.Context, r Request) (*Made, error) {
	if r.Old == nil {
		r.Old = &file.Lock{}
	}
	bundles, err := r.choose(ctx)
	if err != nil {
		return nil, err
	}
	return r.make(ctx, bundles, false)
}

// MakeUser locks the user's space. It selects no version: it locks those of the installed bundles that an item
// reaches. They must be sorted by id and may require only each other.
func MakeUser(ctx context.Context, r Request, installed []file.Bundle) (*Made, error) {
	if r.Old == nil {
		r.Old = &file.Lock{}
	}
	return r.make(ctx, installed, true)
}

func (r *Request) make(ctx context.Context, bundles []file.Bundle, user bool) (*Made, error) {
	made := &Made{}
	system, err := r.bring(ctx, made, bundles)
	if err != nil {
		return nil, err
	}
	if r.Ready != nil {
		if err := r.Ready(bundles); err != nil {
			return nil, err
		}
	}
	view, admit, done, err := r.View(ctx, append(system, r.Library))
	if err != nil {
		return nil, err
	}
	defer done()
	made.Closure, err = closure.Close(ctx, closure.Options{View: view, Admit: admit, Roots: r.Project.AllRoots(),
		User: user, Store: r.Store, Pinned: r.pins})
	if err != nil {
		return nil, err
	}
	if user {
		bundles = made.reached(bundles)
	}
	programs, err := r.toolchain(ctx, made, view)
	if err != nil {
		return nil, err
	}
	artifacts, err := r.artifacts(ctx, made)
	if err != nil {
		return nil, err
	}
	made.Lock = &file.Lock{
		Requires: r.Project.Requires, Bundles: bundles, Pins: made.Closure.Pins,
		Toolchain: programs, Artifacts: artifacts,
		Definitions: definitions(r.Old.Definitions, made.Closure.Definitions),
	}
	if err := r.sameLibrary(made.Lock); err != nil {
		return nil, err
	}
	if made.Lock, made.ID, err = file.Canonical(made.Lock); err != nil {
		return nil, err
	}
	made.Closure.Pins = nil // the lock has them
	made.Changes = file.Diff(r.Old, made.Lock)
	return made, nil
}

// pins returns the digests with which the present lock, and each side of an unfinished merge, has an item.
func (r *Request) pins(ref model.Ref) (digests []cas.Digest) {
	for _, l := range append(slices.Clone(r.Sides), r.Old) {
		if l == nil {
			continue
		}
		if p := l.Pin(ref); p != nil {
			digests = append(digests, p.Digest)
		}
	}
	return digests
}

// Choose only selects versions of the bundles. For a source with one version at a time, both the locked and the
// current version count.
func Choose(ctx context.Context, r Request) (*resolve.Resolution, error) {
	if held := r.held(true); len(held) > 0 {
		r.Sources = &holding{Sources: r.Sources, r: &r, held: held, tips: true, tell: true}
	}
	return r.resolve(ctx)
}

// resolve selects versions of the sources.
func (r *Request) resolve(ctx context.Context) (*resolve.Resolution, error) {
	request := resolve.Request{Requires: map[string]semver.Range{}, Keep: map[string]string{}, UpdateAll: r.UpdateAll}
	for _, need := range r.Project.Requires {
		request.Requires[need.ID] = need.Range
	}
	if r.Old != nil {
		for _, b := range r.Old.Bundles {
			request.Keep[b.ID] = b.Version
		}
	}
	for _, id := range r.Update {
		if id != lock.Library {
			request.Update = append(request.Update, id)
		}
	}
	return resolve.Resolve(ctx, r.Sources, request)
}

// reached returns the bundles with pinned items, and the bundles that these require.
func (m *Made) reached(bundles []file.Bundle) (left []file.Bundle) {
	at := map[string]int{}
	for i, b := range bundles {
		at[b.ID] = i
	}
	used := make([]bool, len(bundles))
	var use func(id string)
	use = func(id string) {
		i, ok := at[id]
		if !ok || used[i] {
			return
		}
		used[i] = true
		for _, n := range m.Bundles[i].Requires {
			use(n.BundleID)
		}
	}
	for i := range m.Closure.Pins {
		if id, ok := strings.CutPrefix(m.Closure.Pins[i].From, file.System); ok {
			use(id)
		}
	}
	var with []*bundle.Bundle
	for i, b := range bundles {
		if used[i] {
			left, with = append(left, b), append(with, m.Bundles[i])
		}
	}
	m.Bundles = with
	return left
}

// choose returns the bundles of the lock, sorted by id. Without a change it asks no source.
func (r *Request) choose(ctx context.Context) ([]file.Bundle, error) {
	updates := r.UpdateAll || slices.ContainsFunc(r.Update, func(id string) bool { return id != lock.Library })
	if !updates && !r.Resolve && slices.EqualFunc(SortedRequires(r.Project.Requires), r.Old.Requires,
		sameRequirement) {
		settled, err := r.settled(ctx)
		if err != nil || settled {
			return r.Old.Bundles, err
		}
	}
	res, err := r.chooseHeld(ctx)
	if err != nil {
		return nil, err
	}
	var out []file.Bundle
	for _, bundle := range res.Bundles {
		// An unchanged version stays the locked bundle: another bundle under the same version is not a reason to
		// change it.
		if old := r.Old.Bundle(bundle.ID); old != nil && old.Version == bundle.Version &&
			!slices.Contains(r.Update, bundle.ID) &&
			!r.UpdateAll {
			if _, from, err := r.Sources.Manifest(ctx, bundle.ID, bundle.Version); err == nil && from == old.Source {
				out = append(out, *old)
				continue
			}
		}
		id, from, err := r.Sources.Manifest(ctx, bundle.ID, bundle.Version)
		if err != nil {
			return nil, err
		}
		locked := file.Bundle{ID: bundle.ID, Version: bundle.Version, Manifest: id, Source: from}
		if locked.Log, locked.Leaf, err = r.Sources.Logged(ctx, bundle.ID, bundle.Version, from); err != nil {
			return nil, err
		}
		out = append(out, locked)
	}
	return out, nil
}

// settled reports whether the old lock has exactly the bundles that its requirements need, each in an allowed
// version.
func (r *Request) settled(ctx context.Context) (bool, error) {
	used := map[string]bool{}
	ok := true
	var visit func(id, versions string) error
	visit = func(id, versions string) error {
		b := r.Old.Bundle(id)
		allowed, err := semver.Parse(versions)
		if b == nil || err != nil || !allowed.Contains(b.Version) {
			ok = false
			return nil
		}
		if used[id] {
			return nil
		}
		used[id] = true
		needs, err := r.requires(ctx, *b)
		for _, n := range needs {
			if err == nil && ok {
				err = visit(n.BundleID, n.Version)
			}
		}
		return err
	}
	for _, need := range r.Old.Requires {
		if err := visit(need.ID, need.Text); err != nil {
			return false, err
		}
	}
	return ok && len(used) == len(r.Old.Bundles) && r.placed(), nil
}

// placed reports whether every bundle of the old lock comes from an allowed place: its named source, or else one of
// the indexes. Places that only the lock names are never contacted.
func (r *Request) placed() bool {
	named, indexes := map[string]project.Source{}, map[project.Source]bool{}
	for _, need := range r.Old.Requires {
		named[need.ID] = need.Source
		indexes[need.Source] = need.Source.Index
	}
	return !slices.ContainsFunc(r.Old.Bundles, func(b file.Bundle) bool {
		from, ok := named[b.ID]
		return ok && !from.Allows(b.Source) || !ok && !indexes[b.Source] && !r.fromRegistry(b)
	})
}

// fromRegistry reports whether a bundle comes from the registry whose names cover it.
func (r *Request) fromRegistry(b file.Bundle) bool {
	url, ok := b.Source.Registry()
	all := r.Project.RegistriesOf(b.ID)
	return ok && len(all) == 1 && all[0].URL == url
}

// bring brings the bundles, dependencies first, and returns their spaces in the order of ids.
func (r *Request) bring(ctx context.Context, made *Made, bundles []file.Bundle) ([]*ai.Space, error) {
	made.Bundles = make([]*bundle.Bundle, len(bundles))
	spaces := make([]*ai.Space, len(bundles))
	at := map[string]int{}
	for i, b := range bundles {
		at[b.ID] = i
	}
	var path []string
	var visit func(i int) error
	visit = func(i int) error {
		if spaces[i] != nil {
			return nil
		}
		bundle := bundles[i]
		if slices.Contains(path, bundle.ID) {
			return fault.New(fault.Circular, "bundles require each other in a cycle: %s",
				strings.Join(append(path[slices.Index(path, bundle.ID):], bundle.ID), " → "))
		}
		path = append(path, bundle.ID)
		defer func() { path = path[:len(path)-1] }()
		needs, err := r.requires(ctx, bundle)
		if err != nil {
			return err
		}
		below := []*ai.Space{r.Library}
		for _, n := range needs {
			j, ok := at[n.BundleID]
			if !ok {
				return lock.Unmet(lock.BundleName(bundle.ID, bundle.Version), n.BundleID, n.Version, "")
			}
			if err := visit(j); err != nil {
				return err
			}
			below = append(below, spaces[j])
		}
		made.Bundles[i], err = r.Sources.Bring(ctx, bundle, below)
		if r.pinned(bundle) != nil && elsewhere(err) {
			// All pinned items are available, as in .ai/vendor; other items can't be pinned now.
			made.Bundles[i], spaces[i] = r.pinned(bundle), r.Pinned.Space(file.System+bundle.ID)
			return nil
		}
		if err != nil {
			return err
		}
		spaces[i] = BundleSpace(ctx, r.Files, made.Bundles[i])
		return nil
	}
	for i := range bundles {
		if err := visit(i); err != nil {
			return nil, err
		}
	}
	return spaces, nil
}

// elsewhere reports whether a bundle is unavailable: rye is offline, or the source is missing, such as a directory
// beside the project on another machine.
func elsewhere(err error) bool {
	_, offline := errors.AsType[*source.OfflineError](err)
	return offline || errors.Is(err, fs.ErrNotExist)
}

// pinned returns a bundle of the old lock if it is available, or nil.
func (r *Request) pinned(b file.Bundle) *bundle.Bundle {
	if r.Pinned == nil {
		return nil
	}
	if have := r.Pinned.Bundle(b.ID); have != nil && have.ID == b.Manifest {
		return have
	}
	return nil
}

func (r *Request) requires(ctx context.Context, b file.Bundle) ([]manifest.Require, error) {
	if have := r.pinned(b); have != nil {
		return have.Requires, nil
	}
	return r.Sources.Requires(ctx, b)
}

// Bring brings the bundles of the old lock, and no others.
func Bring(ctx context.Context, r Request) ([]*bundle.Bundle, error) {
	var m Made
	_, err := r.bring(ctx, &m, r.Old.Bundles)
	return m.Bundles, err
}

// BringNew selects versions as for a first lock, brings these bundles, and makes no lock.
func BringNew(ctx context.Context, r Request) ([]*bundle.Bundle, error) {
	r.Old = &file.Lock{}
	bundles, err := r.choose(ctx)
	if err != nil {
		return nil, err
	}
	var m Made
	_, err = r.bring(ctx, &m, bundles)
	return m.Bundles, err
}

// BundleSpace returns all items of a bundle, whose files are in a store, as a space.
func BundleSpace(ctx context.Context, files cas.Getter, b *bundle.Bundle) *ai.Space {
	s := &ai.Space{Label: file.System + b.BundleID, Level: ai.System,
		FS: snapshot.FS(ctx, files, b.Files, b.Layout().Items)}
	for _, n := range b.Requires {
		s.Requires = append(s.Requires, file.System+n.BundleID)
	}
	return s
}

// sameLibrary refuses unrequested changes by another version of the library.
func (r *Request) sameLibrary(l *file.Lock) error {
	if r.UpdateAll || slices.Contains(r.Update, lock.Library) {
		return nil
	}
	var other []lock.StdItem
	for _, p := range l.Pins {
		old := r.Old.Pin(p.Ref)
		if p.From != file.FromStd || old == nil || old.From != file.FromStd {
			continue
		}
		switch {
		case old.Digest != p.Digest:
			other = append(other, lock.StdItem{Ref: p.Ref, Expected: old.Digest, Found: p.Digest})
		case old.Tree != p.Tree:
			other = append(other, lock.StdItem{Ref: p.Ref, Expected: old.Tree, Found: p.Tree, Tree: true})
		}
	}
	if len(other) > 0 {
		return &lock.StdError{Items: other}
	}
	return nil
}

// definitions returns the closure's definitions, and those of the old lock that aren't config.
func definitions(old, made []file.Definition) []file.Definition {
	out := slices.Clone(made)
	for _, d := range old {
		if !strings.HasPrefix(d.Name, "config:") {
			out = append(out, d)
		}
	}
	return out
}

// SortedRequires returns requirements in the lock's order.
func SortedRequires(list []project.Requirement) []project.Requirement {
	return slices.SortedFunc(slices.Values(list), func(a, b project.Requirement) int {
		return cmp.Compare(a.ID, b.ID)
	})
}

func sameRequirement(a, b project.Requirement) bool {
	return a.ID == b.ID && a.Text == b.Text && a.Source == b.Source
}
