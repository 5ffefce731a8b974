// Package drift is the comparison of the working tree with the lock.
//
// How a call goes through here: Find collects the pins to compare (concerned). pin compares the file of each and
// returns its tool; leaders picks one tool for each directory, and tree compares the tool's files. kinds and config
// then find unpinned extractors and config.
//
// Find compares the working tree with the pins of some items and of all items that these depend on: the tools that
// run them, the extractors of their kinds, and all config of the project. A difference is
//
//	changed    a pinned file has other bytes, or may be executed where the pin may not
//	gone       the file is missing
//	added      a file that would be part of a pinned tool's tree
//	unpinned   an item, an extractor or a config that is not in the lock and would now override a pinned one or
//	           be merged with it
//	unreadable it cannot be compared
//
// Pins from the user's space aren't compared: the lock contains these items, and another machine doesn't have them.
package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// A Kind is the way in which the working tree differs from the lock.
type Kind string

// The kinds, by the words of the package comment.
const (
	Changed    Kind = "changed"
	Gone       Kind = "gone"
	Added      Kind = "added"
	Unpinned   Kind = "unpinned"
	Unreadable Kind = "unreadable"
)

// A Difference is one difference between the working tree and the lock.
type Difference struct {
	Kind Kind
	// the pinned item, or the unpinned one; zero if the path is no item's
	Ref             model.Ref
	Path            string // in the project's space; "" for an extractor outside of it
	Expected, Found cas.Digest
	OnlyLineEndings bool  // with other line ends the file would match
	OnlyMode        bool  // the bytes match
	Err             error // why it is unreadable
}

func (d *Difference) Error() string {
	switch d.Kind {
	case Gone:
		return fmt.Sprintf("%q: %q is missing", d.Ref, d.Path)
	case Added:
		return fmt.Sprintf("%q: %q is a new file of the tool, not in the lock", d.Ref, d.Path)
	case Unpinned:
		return fmt.Sprintf("%q: %q is not in the lock but would be used", d.Ref, d.Path)
	case Unreadable:
		if d.Ref == (model.Ref{}) {
			return d.Err.Error()
		}
		return fmt.Sprintf("%q: %v", d.Ref, d.Err)
	}
	s := fmt.Sprintf("%q: %q is locked as %s, but is %s", d.Ref, d.Path, d.Expected.Short(), d.Found.Short())
	switch {
	case d.OnlyMode:
		return fmt.Sprintf("%q: the executable bit of %q differs", d.Ref, d.Path)
	case d.OnlyLineEndings:
		s += ": only line endings differ"
	}
	return s
}

// Unwrap returns why the file is unreadable.
func (d *Difference) Unwrap() error { return d.Err }

// Options configures Find.
type Options struct {
	Pinned  *ai.View     // from Set.View
	Working *ai.View     // the working tree over the other spaces
	Admit   *ai.Admitter // of Working; decides which files belong to a tool. KeepTrees makes it faster
	User    bool         // the lock is the user's own, and the user's space is the working tree
}

// Find returns the differences between the working tree and some pinned items, by default all. They are sorted by
// path, each path once. An item without a pin is a *lock.NotLockedError.
func Find(ctx context.Context, s *lock.Set, o Options, refs ...model.Ref) ([]*Difference, error) {
	drift := &drift{Set: s, Options: o, folders: map[string]folder{}, seen: map[string]bool{}}
	level := ai.Project
	if drift.from = file.FromProject; o.User {
		level, drift.from = ai.User, file.FromUser
	}
	for _, space := range o.Working.Spaces() {
		if space.Level == level {
			drift.space = space
		}
	}
	pins, err := drift.concerned(ctx, refs)
	if err != nil {
		return nil, err
	}
	tools := make([]*tool, len(pins))
	if err := drift.each(ctx, len(pins), func(i int) (found []*Difference) {
		found, tools[i] = drift.pin(ctx, pins[i])
		return found
	}); err != nil {
		return nil, err
	}
	// A file that is a pinned item is reported once, and not again as a file of every tool in its directory.
	tools = drift.leaders(tools)
	if err := drift.each(ctx, len(tools), func(i int) []*Difference { return drift.tree(ctx, tools[i]) }); err != nil {
		return nil, err
	}
	drift.kinds(pins)
	if err := drift.config(ctx); err != nil {
		return nil, err
	}
	if len(drift.found) == 0 {
		drift.add(drift.broken...)
	}
	slices.SortFunc(drift.found, func(a, b *Difference) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Ref.String(), b.Ref.String()),
			cmp.Compare(a.Kind, b.Kind))
	})
	return drift.found, nil
}

const config = "config"

type drift struct {
	*lock.Set
	Options
	space *ai.Space // of the project in the working tree, or the user's; nil without one
	from  string    // its label in pins

	found  []*Difference
	seen   map[string]bool // paths already reported
	broken []*Difference   // tools whose chain is broken, reported only if nothing else is

	mu      sync.Mutex
	folders map[string]folder
}

// A tool is a pinned tool of the project, as in the working tree.
type tool struct {
	pin    *file.Pin
	it     *ai.Item
	anchor *ai.Anchor
	err    error // of the anchor
}

type folder struct {
	entries map[string]fs.DirEntry
	err     error
}

func (d *drift) add(all ...*Difference) {
	for _, x := range all {
		if x.Path != "" && d.seen[x.Path] {
			continue
		}
		d.seen[x.Path] = true
		d.found = append(d.found, x)
	}
}

// each adds the results of f(0) to f(n-1), in this order.
func (d *drift) each(ctx context.Context, n int, f func(i int) []*Difference) error {
	found := make([][]*Difference, n)
	err := cas.Parallel(ctx, 0, n, func(_ context.Context, i int) error {
		found[i] = f(i)
		return nil
	})
	for _, list := range found {
		d.add(list...)
	}
	return err
}

// concerned returns the pins of some items and of all items that they depend on.
func (d *drift) concerned(ctx context.Context, refs []model.Ref) ([]*file.Pin, error) {
	wanted := map[model.Ref]bool{}
	pinned := d.Resolver(d.Pinned)
	for _, ref := range refs {
		if d.Pin(ref) == nil {
			return nil, &lock.NotLockedError{Ref: ref, Err: &ai.NotFoundError{Ref: ref}}
		}
		wanted[ref] = true
		for from := (*ai.Space)(nil); ref.Kind == "tool"; {
			it, err := pinned.Resolve(ctx, ref, from)
			if err != nil {
				return nil, err
			}
			t := it.Model.Tool
			if t == nil || t.Primitive || t.Executor == "" {
				break
			}
			if ref, from = (model.Ref{Kind: "tool", ID: t.Executor}), it.Space; wanted[ref] {
				break
			}
			wanted[ref] = true
		}
	}
	for ref := range wanted {
		if k, ok := d.Pinned.Kind(ref.Kind); ok && k.From != "" {
			wanted[model.Ref{Kind: "tool", ID: k.From}] = true
		}
	}
	var pins []*file.Pin
	for i := range d.Lock().Pins {
		if pin := &d.Lock().Pins[i]; len(refs) == 0 || wanted[pin.Ref] || pin.Ref.Kind == config {
			pins = append(pins, pin)
		}
	}
	return pins, nil
}

// pin compares one pin, and returns its tool in the working tree.
func (d *drift) pin(ctx context.Context, pin *file.Pin) (found []*Difference, tool *tool) {
	if d.space == nil {
		if pin.From == d.from {
			found = append(found, &Difference{Kind: Gone, Ref: pin.Ref, Path: pin.Path, Expected: pin.Digest})
		}
		return found, nil
	}
	own := ""
	if pin.From == d.from {
		own = pin.Path
		var known cas.Digest
		if tool = d.tool(ctx, pin); tool != nil {
			known = tool.it.Raw
		}
		if x := d.compare(ctx, pin.Ref, manifest.File{Path: own, Digest: pin.Digest, Mode: pin.Mode},
			known); x != nil {
			found = append(found, x)
		}
	}
	k, ok := d.Working.Kind(pin.Ref.Kind)
	if !ok {
		return found, tool // its extractor is missing, which is reported separately
	}
	dir, name := path.Split(k.Dir + "/" + pin.Ref.ID)
	folder := d.folder(path.Clean(dir))
	if folder.err != nil && own == "" && !errors.Is(folder.err, fs.ErrNotExist) {
		if _, err := d.Working.All(ctx, pin.Ref); err != nil {
			found = append(found, &Difference{Kind: Unreadable, Ref: pin.Ref, Path: path.Clean(dir),
				Expected: pin.Digest, Err: err})
		}
	}
	for _, ext := range k.Extensions {
		at := dir + name + ext
		if e, ok := folder.entries[name+ext]; ok && at != own && !e.IsDir() {
			if x := d.other(ctx, pin, at); x != nil {
				found = append(found, x)
			}
		}
	}
	return found, tool
}

// tool reads a pinned tool in the working tree; it returns nil for other items.
func (d *drift) tool(ctx context.Context, pin *file.Pin) *tool {
	if pin.Ref.Kind != "tool" {
		return nil
	}
	f, err := d.Working.At(d.space, pin.Path)
	if err != nil {
		return nil
	}
	it, err := d.Working.Load(ctx, f)
	if err != nil {
		return nil
	}
	t := &tool{pin: pin, it: it}
	t.anchor, t.err = d.Admit.Anchor(ctx, it)
	return t
}

// other examines a file in the place of a pinned item that differs from it.
func (d *drift) other(ctx context.Context, pin *file.Pin, at string) *Difference {
	f, err := d.Working.At(d.space, at)
	var it *ai.Item
	if err == nil {
		it, err = d.Working.Load(ctx, f)
	}
	switch {
	case errors.Is(err, ai.ErrAsset):
		return nil
	case err != nil:
		return &Difference{Kind: Unreadable, Ref: pin.Ref, Path: at, Expected: pin.Digest, Err: err}
	}
	return &Difference{Kind: Unpinned, Ref: pin.Ref, Path: at, Expected: pin.Digest, Found: it.Raw}
}

// compare compares one file, whose digest may be known; it returns nil if they are equal.
func (d *drift) compare(ctx context.Context, ref model.Ref, want manifest.File, known cas.Digest) *Difference {
	difference := &Difference{Kind: Changed, Ref: ref, Path: want.Path, Expected: want.Digest}
	mode, err := lock.ModeOf(d.space, want.Path)
	if err == nil && known.IsZero() {
		h := cas.NewHasher()
		err = d.read(ctx, want.Path, h)
		known = h.Digest()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		difference.Kind = Gone
	case err != nil:
		difference.Kind = Unreadable
		difference.Err = &ai.ItemError{Ref: ref, Space: d.space, Path: want.Path, Err: err}
	case known != want.Digest:
		difference.Found, difference.OnlyLineEndings = known, d.sameText(ctx, want)
	case mode != want.Mode:
		difference.Found, difference.OnlyMode = known, true
	default:
		return nil
	}
	return difference
}

// leaders returns one of the tools of each directory: all of them have the same files.
func (d *drift) leaders(tools []*tool) (first []*tool) {
	type group struct {
		dir, below string
		files      cas.Digest
	}
	done := map[group]bool{}
	for _, tool := range tools {
		if tool != nil {
			if _, ok := errors.AsType[*ai.ChainError](tool.err); ok {
				d.broken = append(d.broken, &Difference{Kind: Unreadable, Ref: tool.pin.Ref, Err: tool.err})
				continue
			}
		}
		switch {
		case tool == nil || tool.err == nil && tool.anchor == nil && tool.pin.Files.IsZero():
			continue
		case tool.err == nil && tool.anchor != nil:
			g := group{tool.anchor.Dir, tool.anchor.Below, tool.pin.Files}
			if done[g] && !tool.pin.Files.IsZero() {
				continue
			}
			done[g] = true
		}
		first = append(first, tool)
	}
	return first
}

// tree compares the other files of a tool.
func (d *drift) tree(ctx context.Context, tool *tool) (found []*Difference) {
	now, err := (*tree.Tree)(nil), tool.err
	if err == nil {
		now, err = d.Admit.Tree(ctx, tool.it)
	}
	if err != nil {
		return []*Difference{{Kind: Unreadable, Ref: tool.pin.Ref, Err: err}}
	}
	pinned := map[string]manifest.File{}
	for _, f := range d.Tree(tool.pin.Files) {
		pinned[f.Path] = f
	}
	delete(pinned, tool.pin.Path)
	if now != nil {
		for _, f := range now.Files {
			at := path.Join(tool.anchor.Dir, f.Path)
			want, ok := pinned[at]
			delete(pinned, at)
			switch {
			case !ok:
				found = append(found, &Difference{Kind: Added, Ref: tool.pin.Ref, Path: at, Found: f.Raw})
			case want.Digest != f.Raw || want.Mode != f.Mode:
				if x := d.compare(ctx, tool.pin.Ref, want, f.Raw); x != nil {
					found = append(found, x)
				}
			}
		}
	}
	for _, want := range pinned {
		// A file that exists but isn't the tool's any more, because the tool lost its anchor, is not a difference of
		// the file.
		if x := d.compare(ctx, tool.pin.Ref, want, cas.Digest{}); x != nil {
			found = append(found, x)
		}
	}
	return found
}

// kinds finds kinds that other extractors than the pinned ones define.
func (d *drift) kinds(pins []*file.Pin) {
	checked := map[string]bool{}
	for _, pin := range pins {
		name := pin.Ref.Kind
		if checked[name] {
			continue
		}
		checked[name] = true
		before, ok := d.Pinned.Kind(name)
		now, still := d.Working.Kind(name)
		if ok && still && before.From != now.From && now.From != "" {
			d.add(&Difference{Kind: Unpinned, Ref: model.Ref{Kind: "tool", ID: now.From}})
		}
	}
}

// config finds config of the project that the lock lacks. All config is merged, so each file has an effect.
func (d *drift) config(ctx context.Context) error {
	listing, err := d.Working.Files(ctx, config)
	if err != nil {
		return err
	}
	for _, f := range listing.Files {
		if f.Space != d.space {
			continue
		}
		if pin := d.Pin(f.Ref); pin == nil || pin.From != d.from {
			d.add(&Difference{Kind: Unpinned, Ref: f.Ref, Path: f.Path})
		}
	}
	for _, p := range listing.Problems {
		if p.Space == d.space {
			d.add(&Difference{Kind: Unreadable, Ref: p.Ref, Path: p.Path, Err: p})
		}
	}
	return nil
}

// folder returns the entries of a directory of the working tree, read once.
func (d *drift) folder(dir string) folder {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.folders[dir]
	if ok {
		return f
	}
	entries, err := fs.ReadDir(d.space.FS, dir)
	f = folder{entries: make(map[string]fs.DirEntry, len(entries)), err: err}
	for _, e := range entries {
		f.entries[e.Name()] = e
	}
	d.folders[dir] = f
	return f
}
