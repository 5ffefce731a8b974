package ai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/statcache"
)

// A File is the place of an item or of a possible item: only reading it shows whether it has the marker of its kind.
// Files that share an id have been read, and those without a marker dropped.
type File struct {
	model.Ref
	Kind  *model.Kind
	Space *Space
	Path  string          // in the space, "tools/rye/bash/bash.py"
	Stat  statcache.Stamp // of the listing
}

// A Listing is the files of some kinds in all spaces.
type Listing struct {
	Files    []File       // sorted by kind and id, of one id from the highest space to the lowest
	Problems []*ItemError // files that look like items and are none; sorted by place
}

// Files lists the files of some kinds in all spaces; without kinds, of all. Only its context stops it. Unreadable
// files are problems, and so are links, special files, names that aren't portable, files that share an id, and a
// directory "Tools" next to or instead of "tools".
func (v *View) Files(ctx context.Context, kinds ...string) (*Listing, error) {
	var starts []start
	for _, s := range v.spaces {
		for _, k := range v.kinds {
			if len(kinds) == 0 || slices.Contains(kinds, k.Name) {
				starts = append(starts, start{s, k, k.Dir})
			}
		}
	}
	l, err := v.walk(ctx, starts)
	if err != nil {
		return nil, err
	}
	for _, s := range v.spaces {
		l.Problems = append(l.Problems, v.misspeltDirs(s, kinds)...)
	}
	slices.SortStableFunc(l.Problems, v.compare)
	return l, nil
}

// misspeltDirs reports directories that differ from a kind's only in case: some systems take them for the kind's
// directory, others ignore them.
func (v *View) misspeltDirs(space *Space, kinds []string) (problems []*ItemError) {
	entries, err := fs.ReadDir(space.FS, ".")
	if err != nil {
		return nil // reading the directories reports the error
	}
	for _, e := range entries {
		for _, k := range v.kinds {
			if e.Name() == k.Dir || portable.Fold(e.Name()) != portable.Fold(k.Dir) || len(kinds) > 0 &&
				!slices.Contains(kinds, k.Name) {
				continue
			}
			problems = append(problems, &ItemError{Space: space, Path: e.Name(), Err: fmt.Errorf(
				"differs from %q, the directory of the kind %s, in upper and lower case alone: on some systems it is the same, on others no item in it is found",
				k.Dir, k.Name)})
		}
	}
	return problems
}

// compare orders problems by their places.
func (v *View) compare(a, b *ItemError) int {
	return cmp.Or(cmp.Compare(v.rank(a.Space), v.rank(b.Space)), cmp.Compare(a.Path, b.Path))
}

// A start is a directory of a space to search for files of a kind.
type start struct {
	space *Space
	kind  *model.Kind
	dir   string
}

func (v *View) walk(ctx context.Context, starts []start) (*Listing, error) {
	defer v.Hold()()
	w := walk{view: v, ctx: ctx, slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
	for _, s := range starts {
		w.dir(s.space, s.kind, s.dir)
	}
	w.wait.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.oneEach()
	l := &Listing{w.files, w.problems}
	slices.SortFunc(l.Problems, v.compare)
	return l, nil
}

// A walk reads directories, at most one per slot at once.
type walk struct {
	view  *View
	ctx   context.Context
	slots chan struct{}
	wait  sync.WaitGroup

	mu       sync.Mutex
	files    []File
	problems []*ItemError
}

func (w *walk) add(files []File, problems []*ItemError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, files...)
	w.problems = append(w.problems, problems...)
}

// dir reads a directory and everything below it, in another goroutine if a slot is free.
func (w *walk) dir(s *Space, k *model.Kind, dir string) {
	select {
	case w.slots <- struct{}{}:
		w.wait.Go(func() {
			defer func() { <-w.slots }()
			w.read(s, k, dir)
		})
	default:
		w.read(s, k, dir)
	}
}

func (w *walk) read(space *Space, k *model.Kind, dir string) {
	if w.ctx.Err() != nil {
		return
	}
	entries, err := fs.ReadDir(space.FS, dir)
	var problems []*ItemError
	var files []File
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, &ItemError{Space: space, Path: dir, Err: err})
	}
	folders := map[string]string{} // case-folded name to name
	for _, entry := range entries {
		name := entry.Name()
		if portable.Droppings(name) || model.IsAsset(name) {
			continue
		}
		if entry.IsDir() {
			if other, ok := folders[portable.Fold(name)]; ok {
				problems = append(problems, &ItemError{Space: space, Path: path.Join(dir, name),
					Err: sameFolder(other)},
					&ItemError{Space: space, Path: path.Join(dir, other), Err: sameFolder(name)})
			}
			folders[portable.Fold(name)] = name
		}
		name = path.Join(dir, name)
		f, err := w.entry(space, k, name, entry)
		if err != nil {
			problems = append(problems, &ItemError{Space: space, Path: name, Err: err})
		} else if f.Path != "" {
			files = append(files, f)
		}
	}
	w.add(files, problems)
}

func sameFolder(other string) error {
	return fmt.Errorf("differs from %+q in upper and lower case alone, and is the same directory on some systems",
		other)
}

// entry examines one entry of a directory. It returns the zero File for an asset.
func (w *walk) entry(space *Space, k *model.Kind, name string, entry fs.DirEntry) (File, error) {
	if err := portable.Check(name); err != nil {
		return File{}, err
	}
	switch {
	case entry.IsDir():
		w.dir(space, k, name)
		return File{}, nil
	case entry.Type()&fs.ModeSymlink != 0:
		return File{}, nofollow.ErrLink
	case !entry.Type().IsRegular():
		return File{}, nofollow.ErrSpecial
	case !slices.Contains(k.Extensions, path.Ext(name)):
		return File{}, misspelt(k, name)
	}
	ref, err := k.RefOf(name)
	if err != nil {
		return File{}, w.namedBadly(space, k, name, err)
	}
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil // removed since the directory was read
	}
	if err != nil {
		return File{}, err
	}
	return File{Ref: ref, Kind: k, Space: space, Path: name, Stat: statcache.StampOf(info)}, nil
}

// misspelt reports an extension that differs from the kind's only in case. Some systems ignore case.
func misspelt(k *model.Kind, name string) error {
	if ext := path.Ext(name); ext != strings.ToLower(ext) && slices.Contains(k.Extensions, strings.ToLower(ext)) {
		return fmt.Errorf("has the extension %+q, which a %s has in lower case", ext, k.Name)
	}
	return nil
}

// namedBadly reports a file that would be an item if its name were a valid id. Assets may have any name.
func (w *walk) namedBadly(s *Space, k *model.Kind, name string, err error) error {
	b, readErr := s.Read(name)
	switch {
	case errors.Is(readErr, ErrGone):
		return nil
	case readErr != nil:
		return readErr
	case k.Marked(name, b):
		return fault.New(fault.Validation, "invalid item name: %v", errors.Unwrap(err))
	}
	return nil
}

// oneEach sorts the files and leaves one for each id and space. Ids that differ only in case are one id, as on some
// systems.
func (w *walk) oneEach() {
	type folded struct {
		id   string
		rank int
		file *File
	}
	all := make([]folded, len(w.files))
	for i := range w.files {
		all[i] = folded{portable.Fold(w.files[i].ID), w.view.rank(w.files[i].Space), &w.files[i]}
	}
	slices.SortFunc(all, func(a, b folded) int {
		return cmp.Or(cmp.Compare(a.file.Ref.Kind, b.file.Ref.Kind), cmp.Compare(a.id, b.id),
			cmp.Compare(a.rank, b.rank), cmp.Compare(a.file.Path, b.file.Path))
	})
	listed := make([]File, 0, len(all))
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].file.Ref.Kind == all[i].file.Ref.Kind && all[j].rank == all[i].rank &&
			all[j].id == all[i].id {
			j++
		}
		if listed = append(listed, *all[i].file); j > i+1 {
			same := collect(all[i:j], func(f folded) File { return *f.file })
			listed = append(listed[:len(listed)-1], w.pick(same)...)
		}
		i = j
	}
	w.files = listed
	byID := func(a, b File) int { return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.ID, b.ID)) }
	if !slices.IsSortedFunc(w.files, byID) {
		slices.SortStableFunc(w.files, byID)
	}
}

// pick returns the only item among files with one id; nothing if several are items.
func (w *walk) pick(same []File) []File {
	marked, problems := slices.Clone(same), []*ItemError(nil)
	marked = slices.DeleteFunc(marked, func(f File) bool {
		b, err := f.Space.Read(f.Path)
		if err != nil && !errors.Is(err, ErrGone) {
			problems = append(problems, &ItemError{Ref: f.Ref, Space: f.Space, Path: f.Path, Err: err})
		}
		return err != nil || !f.Kind.Marked(f.Path, b) || !f.Kind.Read(f.Ref, f.Path, b).Marked
	})
	if len(marked) > 1 {
		err := ambiguous(marked)
		for _, f := range marked {
			problems = append(problems, &ItemError{Ref: f.Ref, Space: f.Space, Path: f.Path, Err: err})
		}
		marked = nil
	}
	w.problems = append(w.problems, problems...)
	return marked
}
