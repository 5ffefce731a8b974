package adopt

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/items"
)

// A Plan is items of a space and the files beside them that are to be written: all, or after an error none.
type Plan struct {
	Groups []Group // the skills and items that the files belong to

	view  *items.Items
	space *ai.Space
	check func(context.Context, *ai.Item) error
	files []newFile // files to write
	gone  []newFile // files to remove
}

type newFile struct {
	path string
	b    []byte // new content; of a file to remove, its current content
	exec bool
	item bool
	ref  model.Ref
	old  *newFile    // the file that this one replaces, or nil
	info fs.FileInfo // of a file that exists
}

// A Group is a skill or an item, with the files that would be replaced or removed.
type Group struct {
	Name, From string   // From is where the skill that would be replaced came from
	Differs    []string // "changed FILE", "removed FILE"
}

// New returns an empty plan for a space. check returns an error for an item that may not be written.
func New(view *items.Items, space *ai.Space, check func(context.Context, *ai.Item) error) *Plan {
	return &Plan{view: view, space: space, check: check}
}

// Name returns the name of a file of the space for people.
func (w *Plan) Name(p string) string { return w.view.Name(w.space, p) }

// Begin starts a group: the files that are added next belong to it.
func (w *Plan) Begin(name string) { w.Groups = append(w.Groups, Group{Name: name}) }

func (w *Plan) group() *Group { return &w.Groups[len(w.Groups)-1] }

// replaces reports whether the current group would replace or remove a file.
func (w *Plan) replaces() bool { return len(w.group().Differs) > 0 }

// addFile plans to write a file and appends its name to into. A file with the same bytes and mode needs no write.
func (w *Plan) addFile(path string, b []byte, exec bool, into *[]string) error {
	file := newFile{path: path, b: b, exec: exec}
	old, err := w.read(path)
	if err != nil {
		return err
	}
	if old != nil {
		removed := slices.ContainsFunc(w.gone, func(g newFile) bool { return strings.EqualFold(g.path, path) })
		if !removed && string(old.b) == string(b) && old.exec == (exec && runtime.GOOS != "windows") {
			return nil
		}
		file.old = old
		w.group().Differs = append(w.group().Differs, "changed "+w.Name(path))
	}
	w.files = append(w.files, file)
	*into = append(*into, w.Name(path))
	return nil
}

// read returns the current file at a path, or nil if none exists.
func (w *Plan) read(path string) (*newFile, error) {
	fi, err := fs.Stat(w.space.FS, path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, nofollow.ErrNoDir) || errors.Is(err, osfile.NotDirectory) ||
		err == nil && fi.IsDir() {
		return nil, nil // something else in the way is removed, or makes the write fail
	}
	f := &newFile{path: path, info: fi}
	if err == nil {
		f.b, err = fs.ReadFile(w.space.FS, path)
	}
	if err != nil {
		return nil, err
	}
	mode, err := lock.ModeOf(w.space, path)
	f.exec = mode == cas.Exec
	return f, err
}

// only plans to remove the files in a skill's directory that are not in known, because they would become part of
// the skill. Outside the directories of own it refuses them instead: the user wrote these. Files that no tree
// includes, such as editor backups, stay.
func (w *Plan) only(dir string, own []string, known map[string]bool, into *[]string) error {
	err := fs.WalkDir(w.space.FS, dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		left := !d.IsDir() && strings.HasPrefix(d.Name(), osfile.Unfinished) // temporary file of a process that died
		switch {
		case d.IsDir() && portable.Droppings(d.Name()):
			return fs.SkipDir
		case d.IsDir() || known[path] || portable.Droppings(d.Name()) && !left:
			return nil
		case !left && !slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(path, o+"/") }):
			return fault.New(fault.Validation, "%q exists and would become part of the skill",
				w.Name(path)).Because("nothing was written").
				On("reason", "exists").On("file", w.Name(path))
		}
		old, err := w.read(path)
		if err != nil {
			return err
		}
		if w.gone = append(w.gone, *old); !left {
			*into = append(*into, w.Name(path))
			w.group().Differs = append(w.group().Differs, "removed "+w.Name(path))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// AddItem plans to write an item, which must be valid. An existing item stays if only its signatures differ.
// Otherwise it is replaced if may allows that, else refused.
func (w *Plan) AddItem(ctx context.Context, ref model.Ref, ext string, text []byte, into *[]string,
	may func(old []byte) bool) error {
	kind, err := w.view.CheckKind(ref.Kind)
	if err != nil {
		return err
	}
	if parsed, err := model.ParseRef(ref.String()); err != nil || parsed != ref {
		return items.BadRef(ref.String(), err)
	}
	file, err := w.view.PathFor(ref, ext)
	if err != nil {
		return fault.Wrap(err, "%q can't be written", ref).On("ref", ref.String())
	}
	it := edit.Draft(ai.File{Ref: ref, Kind: kind, Space: w.space, Path: file}, text)
	if it.Broken != nil {
		return fault.Wrap(it.Broken, "the text of %q contains rye signature lines", ref).On("ref", ref.String())
	}
	if !it.Model.Marked || it.Model.Invalid() {
		return w.view.Invalid(it, w.Name(file))
	}
	old, err := w.read(file)
	if err != nil {
		return err
	}
	if old == nil {
		err = w.view.CheckFree(ctx, ref, w.space)
	} else {
		before := edit.Draft(it.File, old.b)
		if before.Broken == nil && before.Stripped == it.Stripped {
			return nil
		}
		if !may(old.b) {
			return fault.New(fault.Validation, "%q exists and was not imported from a skill of this name",
				w.Name(file)).Because("nothing was written").
				On("reason", "exists").On("file", w.Name(file)).Try("rye show " + fault.Quote(ref.String()))
		}
		w.group().Differs = append(w.group().Differs, "changed "+w.Name(file))
	}
	if err == nil {
		err = w.check(ctx, it)
	}
	w.files = append(w.files, newFile{path: file, b: text, item: true, ref: ref, old: old})
	*into = append(*into, w.Name(file))
	return err
}

// A Written item may belong to the tree of another one.
type Written struct {
	Path string
	Ref  model.Ref
}

// Items returns the items to write.
func (w *Plan) Items() (all []Written) {
	for _, f := range w.files {
		if f.item {
			all = append(all, Written{f.path, f.ref})
		}
	}
	return all
}

// Write removes and writes the planned files, items last. An item whose other files have changed has no valid
// signature, so a process that dies leaves nothing usable, and the same command completes it. After an error, Write
// has undone every change; later the caller can with undo.
func (w *Plan) Write(ctx context.Context) (undo func() error, err error) {
	dir, err := edit.OpenDir(w.space.Dir, w.space.Level)
	if err != nil {
		return nil, err
	}
	var changes []func(*osfile.Dir) error
	back := func() (err error) {
		dir, err := edit.OpenDir(w.space.Dir, w.space.Level)
		if err != nil {
			return err
		}
		defer dir.Close()
		for _, f := range slices.Backward(changes) {
			err = errors.Join(err, f(dir))
		}
		return err
	}
	defer func() {
		dir.Close()
		if err != nil {
			err = errors.Join(err, back())
		}
	}()
	put := func(dir *osfile.Dir, f *newFile, exclusive bool) error {
		return dir.Write(f.path, edit.Mode(f.exec), exclusive, f.b)
	}
	for i := range w.gone {
		if err := dir.Remove(w.gone[i].path); err != nil {
			return nil, err
		}
		changes = append(changes, func(dir *osfile.Dir) error { return put(dir, &w.gone[i], true) })
	}
	for _, items := range []bool{false, true} {
		files := slices.DeleteFunc(slices.Clone(w.files), func(f newFile) bool { return f.item != items })
		staged, err := w.place(ctx, dir, files)
		for i, st := range staged {
			if file := &files[i]; st.Placed() {
				changes = append(changes, func(dir *osfile.Dir) error {
					if file.old != nil {
						return put(dir, file.old, false)
					}
					return dir.Remove(file.path)
				})
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return back, nil
}

// place writes files, each next to its place first, and moves them there.
func (w *Plan) place(ctx context.Context, dir *osfile.Dir, files []newFile) (staged []*osfile.Staged, err error) {
	batch := osfile.NewBatch(len(files), w.view.Now())
	for i := range files {
		f := &files[i]
		if err := ctx.Err(); err != nil {
			batch.Drop(staged)
			return nil, err
		}
		var before fs.FileInfo
		if f.old != nil {
			before = f.old.info
		}
		st, err := batch.Stage(dir, f.path, before, edit.Mode(f.exec), osfile.BytesOf(f.b))
		if err != nil {
			batch.Drop(staged)
			return nil, err
		}
		staged = append(staged, st)
	}
	return staged, batch.Commit(ctx, staged)
}
