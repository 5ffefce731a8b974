package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// A Side is a lock to be compared, with as many of its bytes as are available. Its items must not run.
type Side struct {
	lock *file.Lock
	id   cas.Digest
	std  *ai.Space
	get  cas.Getter // its errors name the item that needs a missing object

	bundles []*bundle.Bundle // as in the lock; nil if unavailable
	trees   map[cas.Digest]*directory
	places  map[model.Ref]place // where pins are; unavailable pins have none
	files   map[string][]manifest.File
	spaces  []*ai.Space

	evidence map[string][]manifest.File // of plugins, whose files are all in files
}

// An assembly builds a side.
type assembly struct {
	*Side
	library library
	wrong   []error // in the order of the lock
}

// newAssembly returns the assembly of a lock before any of its objects is read.
func newAssembly(l *file.Lock, id cas.Digest, objects cas.Getter, std *ai.Space) *assembly {
	a := &assembly{Side: &Side{lock: l, id: id, std: std, places: map[model.Ref]place{},
		trees: map[cas.Digest]*directory{}, files: map[string][]manifest.File{},
		evidence: map[string][]manifest.File{}},
		library: library{space: std}}
	a.get = knowing{objects, a.neededBy}
	return a
}

// A place is the location of a pinned item, whose bytes may be missing.
type place struct {
	space string // its label
	path  string // in the space
	size  int64
	mode  cas.Mode
	files cas.Digest // from the pin, if the tree is available and valid
}

// A directory is the content of the tree that a tool's pin names.
type directory struct {
	files   []manifest.File // sorted by path
	objects []cas.Info      // the trees themselves, sorted
	err     error
}

const (
	dotAI  = ".ai/"
	config = "config"
)

// assemble builds a side. A returned error isn't about the lock: the assembly collects what is wrong there.
func assemble(ctx context.Context, l *file.Lock, id cas.Digest, o SetOptions) (*assembly, error) {
	assembly := newAssembly(l, id, o.Objects, o.Std)
	if err := assembly.library.read(ctx, l); err != nil {
		return nil, err
	}
	if err := assembly.readBundles(ctx, o.Objects); err != nil {
		return nil, err
	}
	assembly.checkRequires()
	if err := assembly.readTrees(ctx); err != nil {
		return nil, err
	}
	assembly.place()
	if len(assembly.library.wrong) > 0 {
		assembly.add(&StdError{assembly.library.wrong})
	}
	assembly.makeSpaces(ctx)
	return assembly, nil
}

func (a *assembly) add(err error) { a.wrong = append(a.wrong, err) }

func (a *assembly) readBundles(ctx context.Context, refs Source) error {
	all := a.lock.Bundles
	a.bundles = make([]*bundle.Bundle, len(all))
	errs := make([]error, len(all))
	if err := cas.Parallel(ctx, 0, len(all), func(ctx context.Context, i int) error {
		a.bundles[i], errs[i] = readBundle(ctx, a.get, refs, all[i].Manifest)
		return nil
	}); err != nil {
		return err
	}
	for i, line := range all {
		b, err := a.bundles[i], errs[i]
		if err == nil && (b.BundleID != line.ID || b.Version != line.Version) {
			err = fmt.Errorf("the manifest is that of %q", BundleName(b.BundleID, b.Version))
		}
		if err == nil {
			continue
		}
		a.bundles[i] = nil
		if _, ok := err.(*MissingError); !ok {
			err = inBundle(line.ID, line.Version, err)
		}
		a.add(err)
	}
	return nil
}

// readTrees reads the trees named by pins.
func (a *assembly) readTrees(ctx context.Context) error {
	var ids []cas.Digest
	for i := range a.lock.Pins {
		if id := a.lock.Pins[i].Files; !id.IsZero() && a.trees[id] == nil {
			a.trees[id] = &directory{}
			ids = append(ids, id)
		}
	}
	var all atomic.Int64
	return cas.Parallel(ctx, 0, len(ids), func(ctx context.Context, i int) error {
		d := a.trees[ids[i]]
		d.err = d.read(ctx, a.get, ids[i], &all)
		return nil
	})
}

// maxListed is how many files and directories all trees of a lock may have: trees share subtrees, so a few bytes can
// expand to more than fits into memory.
const maxListed = 1 << 19

var (
	errMany     = fmt.Errorf("more than the %d that a tool may have", tree.MaxFiles)
	errManyMore = fmt.Errorf("all tools together have more than %d files", maxListed)
)

func (d *directory) read(ctx context.Context, src cas.Getter, id cas.Digest, all *atomic.Int64) error {
	recorder := &recorder{Getter: src}
	err := cas.Walk(ctx, recorder, cas.ID{Kind: cas.TreeKind, Digest: id}, func(path string, e cas.Entry) error {
		switch {
		case len(d.files) > tree.MaxFiles:
			return errMany
		case all.Add(1) > maxListed:
			return errManyMore
		case e.Mode != cas.Dir:
			d.files = append(d.files, manifest.File{Path: path, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
		}
		return nil
	})
	if err != nil {
		d.files = nil
		return err
	}
	slices.SortFunc(d.files, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(recorder.got, func(a, b cas.Info) int { return a.Digest.Compare(b.Digest) })
	d.objects = slices.Compact(recorder.got)
	return nil
}

// A recorder remembers which objects were requested.
type recorder struct {
	cas.Getter
	mu  sync.Mutex
	got []cas.Info
}

func (r *recorder) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := r.Getter.Get(ctx, id)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, o.Info)
	}
	return o, err
}

// place determines the places of the pins and checks them.
func (a *assembly) place() {
	listed := map[string]map[string]*manifest.File{} // by the ids of bundles, and refs
	layouts := map[string]bundle.Layout{}
	for i, b := range a.bundles {
		if b == nil {
			continue
		}
		byRef := map[string]*manifest.File{}
		for j := range b.Files {
			if f := &b.Files[j]; f.Ref != "" {
				byRef[f.Ref] = f
			}
		}
		listed[a.lock.Bundles[i].ID], layouts[a.lock.Bundles[i].ID] = byRef, b.Layout()
	}
	for i := range a.lock.Pins {
		pin := &a.lock.Pins[i]
		var at place
		var err error
		switch id, system := strings.CutPrefix(pin.From, file.System); {
		case pin.From == file.FromStd:
			var ok bool
			if at, ok = a.library.places[pin.Ref]; !ok {
				continue
			}
		case !system:
			// A file's place doesn't depend on other files.
			at = place{pin.From, pin.Path, pin.Size, pin.Mode, pin.Files}
			if err = checkPlace(pin); err != nil {
				break
			}
			if err = a.checkTree(pin); err != nil {
				at.files = cas.Digest{}
				a.places[pin.Ref] = at
			}
		case a.lock.Bundle(id) == nil:
			err = fmt.Errorf("it comes from the bundle %q, which is not in the lock", id)
		case listed[id] == nil:
			continue // the missing bundle is reported
		default:
			at, err = listedAs(pin, listed[id][pin.Ref.String()], layouts[id])
		}
		if err != nil {
			if _, ok := err.(*MissingError); !ok {
				err = inPin(pin.Ref, err)
			}
			a.add(err)
			continue
		}
		a.places[pin.Ref] = at
	}
}

// listedAs compares a pin with a manifest's entry.
func listedAs(pin *file.Pin, file *manifest.File, layout bundle.Layout) (place, error) {
	if file == nil {
		return place{}, fmt.Errorf("%q has no such item", pin.From)
	}
	in, ok := layout.In(file.Path)
	switch {
	case !ok:
		return place{}, fmt.Errorf("%q is not a valid path of an item", file.Path)
	case file.Digest != pin.Digest:
		return place{}, fmt.Errorf("it is locked as %s, but is %s in %q", pin.Digest, file.Digest, pin.From)
	case file.Version != pin.Version:
		return place{}, fmt.Errorf("it is locked in version %q, but is %q in %q", pin.Version, file.Version, pin.From)
	}
	return place{space: pin.From, path: in, size: file.Size, mode: file.Mode}, nil
}

// checkTree checks the tree of a pin from the project or the user.
func (a *assembly) checkTree(pin *file.Pin) error {
	directory := a.trees[pin.Files]
	if directory == nil {
		return nil
	}
	switch missing, ok := errors.AsType[*MissingError](directory.err); {
	case ok:
		return &MissingError{missing.ID, pin.Ref.String()}
	case directory.err != nil:
		return fmt.Errorf("its files: %w", directory.err)
	}
	own := manifest.File{Path: pin.Path, Digest: pin.Digest, Size: pin.Size, Mode: pin.Mode}
	i, ok := slices.BinarySearchFunc(directory.files, pin.Path, func(f manifest.File, path string) int {
		return strings.Compare(f.Path, path)
	})
	switch top := above(pin.Path); {
	case !ok:
		return fmt.Errorf("its files do not include %q itself", pin.Path)
	case directory.files[i] != own:
		return fmt.Errorf("its own file %q differs from the pin", pin.Path)
	case !below(directory.files[0].Path, top) || !below(directory.files[len(directory.files)-1].Path, top):
		// In byte order, the files below one directory are adjacent.
		return fmt.Errorf("its files are not all below %q", top)
	}
	return nil
}

// above returns the highest directory that can hold the files of a tool: its own, or its parent if that isn't the
// directory of its space.
func above(item string) string {
	dir := path.Dir(item)
	if up := path.Dir(dir); up != "." {
		return up
	}
	return dir
}

func below(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }

// makeSpaces makes the spaces of the placed pins.
func (a *assembly) makeSpaces(ctx context.Context) {
	// Files are opened later, by users of a set, which may outlive the operation that made it.
	ctx = context.WithoutCancel(ctx)
	kept := a.tops()
	for _, level := range []ai.Level{ai.Project, ai.User} {
		label := level.String()
		files := a.loose(label)
		if len(files) > 0 || level == ai.Project {
			a.files[label] = files
			a.spaces = append(a.spaces, &ai.Space{Label: label, Level: level, FS: snapshot.FS(ctx, a.get, files, ".")})
		}
	}
	for i, b := range a.bundles {
		if b == nil {
			continue
		}
		label := file.System + a.lock.Bundles[i].ID
		files := a.keep(b, label, kept[label])
		a.files[label] = files
		if b.Plugin != "" { // its servers run with all of its files, and a clone can give it on
			a.files[label] = b.Files
			for _, proof := range b.Evidence {
				a.evidence[label] = append(a.evidence[label], manifest.File{Path: b.Layout().Evidence(proof.Name),
					Digest: proof.Digest, Size: proof.Size, Mode: cas.File})
			}
		}
		s := &ai.Space{Label: label, Level: ai.System,
			FS: snapshot.FS(ctx, a.get, files, b.Layout().Items)}
		for _, r := range b.Requires {
			s.Requires = append(s.Requires, file.System+r.BundleID)
		}
		a.spaces = append(a.spaces, s)
	}
	if a.std != nil {
		a.spaces = append(a.spaces, a.std)
	}
}

// tops returns, for each bundle, the directories that can be the trees of pinned tools.
func (a *assembly) tops() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for i := range a.lock.Pins {
		pin := &a.lock.Pins[i]
		at, ok := a.places[pin.Ref]
		if !ok || pin.Tree.IsZero() {
			continue
		}
		if all[pin.From] == nil {
			all[pin.From] = map[string]bool{}
		}
		all[pin.From][above(at.path)] = true
	}
	return all
}

// keep returns the files of a bundle that its space includes.
func (a *assembly) keep(b *bundle.Bundle, label string, tops map[string]bool) []manifest.File {
	layout := b.Layout()
	return slices.DeleteFunc(slices.Clone(b.Files), func(f manifest.File) bool {
		in, ok := layout.In(f.Path)
		if !ok {
			return true
		}
		if ref, err := model.ParseRef(f.Ref); err == nil {
			if at, pinned := a.places[ref]; pinned && at.space == label || ref.Kind == config {
				return false
			}
		}
		for dir := path.Dir(in); dir != "."; dir = path.Dir(dir) {
			if tops[dir] {
				return false
			}
		}
		return true
	})
}

// loose returns the files of the pins from the project or the user.
func (a *assembly) loose(label string) []manifest.File {
	var all []manifest.File
	used := map[cas.Digest]bool{}
	for i := range a.lock.Pins {
		pin := &a.lock.Pins[i]
		if pin.From != label {
			continue
		}
		if files := a.places[pin.Ref].files; files.IsZero() {
			all = append(all, manifest.File{Path: pin.Path, Digest: pin.Digest, Size: pin.Size, Mode: pin.Mode})
		} else if !used[files] {
			used[files] = true
			all = append(all, a.trees[files].files...)
		}
	}
	slices.SortFunc(all, func(a, b manifest.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Digest.Compare(b.Digest), cmp.Compare(a.Mode, b.Mode))
	})
	all = slices.Compact(all)
	once := slices.CompactFunc(all, func(next, kept manifest.File) bool {
		if kept.Path == next.Path {
			a.add(fmt.Errorf("%q in the space %q has two contents: %s and %s", kept.Path, label, content(&kept),
				content(&next)))
		}
		return kept.Path == next.Path
	})
	if err := portable.CheckSet(func(yield func(string) bool) {
		for i := range once {
			if !yield(once[i].Path) {
				return
			}
		}
	}); err != nil {
		a.add(fmt.Errorf("the space %q: %w", label, err))
	}
	return once
}

func content(f *manifest.File) string {
	return fmt.Sprintf("%s (%s, %d bytes)", f.Digest, f.Mode, f.Size)
}

// checkRequires compares the requirements with the locked bundles.
func (a *assembly) checkRequires() {
	for _, r := range a.lock.Requires {
		b := a.lock.Bundle(r.ID)
		if b == nil || !r.Range.Contains(b.Version) {
			a.add(Unmet("the project", r.ID, r.Text, versionOf(b)))
		}
	}
	for i, b := range a.bundles {
		if b == nil {
			continue
		}
		for _, r := range b.Requires {
			if err := a.checkRequire(&a.lock.Bundles[i], r); err != nil {
				a.add(err)
			}
		}
	}
}

func versionOf(b *file.Bundle) string {
	if b == nil {
		return ""
	}
	return b.Version
}
