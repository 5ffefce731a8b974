package exchange

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/items"
)

// A writer writes items of the project and the files beside them: all, or after an error none. It asks before it
// replaces files that differ. The caller must call close.
type writer struct {
	v      *spaces.Items
	space  *ai.Space
	unlock func()
	dry    bool
	files  []newFile // files to write
	gone   []newFile // files to remove
	groups []group   // the skills and items that the files belong to
}

type newFile struct {
	path string
	b    []byte // new content; of a file to remove, its current content
	exec bool
	item bool
	ref  model.Ref
	old  *newFile // the file that this one replaces, or nil
}

// A group is a skill or an item, with the files that would be replaced or removed.
type group struct {
	name, from string
	differs    []string // "changed FILE", "removed FILE"
}

// openWriter opens the project for writing. Unless dry, it locks the project until close.
func openWriter(ctx context.Context, a *cli.App, dry bool) (*writer, error) {
	root, err := paths.Paths(a).OpenProject()
	if err != nil {
		return nil, err
	}
	w := &writer{unlock: func() {}, dry: dry}
	if !dry {
		if w.unlock, err = paths.Alone(ctx, a, false); err != nil {
			return nil, err
		}
	}
	if w.v, err = spaces.OpenItems(ctx, a); err != nil {
		w.unlock()
		return nil, err
	}
	if w.space = w.v.Project; w.space == nil {
		w.space = &ai.Space{Label: ai.Project.String(), Level: ai.Project, Dir: root.DotAI(),
			FS: os.DirFS(root.DotAI())}
	}
	return w, nil
}

func (w *writer) close() {
	w.v.Close()
	w.unlock()
}

func (w *writer) name(p string) string { return w.v.Name(w.space, p) }

// begin starts a group: the files that are added next belong to it.
func (w *writer) begin(name string) { w.groups = append(w.groups, group{name: name}) }

func (w *writer) group() *group { return &w.groups[len(w.groups)-1] }

// replaces reports whether the current group would replace or remove a file.
func (w *writer) replaces() bool { return len(w.group().differs) > 0 }

// addFile plans to write a file and appends its name to into. A file with the same bytes and mode needs no write.
func (w *writer) addFile(p string, b []byte, exec bool, into *[]string) error {
	file := newFile{path: p, b: b, exec: exec}
	old, err := w.read(p)
	if err != nil {
		return err
	}
	if old != nil {
		removed := slices.ContainsFunc(w.gone, func(g newFile) bool { return strings.EqualFold(g.path, p) })
		if !removed && string(old.b) == string(b) && old.exec == (exec && runtime.GOOS != "windows") {
			return nil
		}
		file.old = old
		w.group().differs = append(w.group().differs, "changed "+w.name(p))
	}
	w.files = append(w.files, file)
	*into = append(*into, w.name(p))
	return nil
}

// read returns the current file at a path, or nil if none exists.
func (w *writer) read(p string) (*newFile, error) {
	fi, err := fs.Stat(w.space.FS, p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, nofollow.ErrNoDir) || errors.Is(err, osfile.NotDirectory) ||
		err == nil && fi.IsDir() {
		return nil, nil // something else in the way is removed, or makes the write fail
	}
	f := &newFile{path: p}
	if err == nil {
		f.b, err = fs.ReadFile(w.space.FS, p)
	}
	if err != nil {
		return nil, err
	}
	mode, err := lock.ModeOf(w.space, p)
	f.exec = mode == cas.Exec
	return f, err
}

// only plans to remove the files in a skill's directory that are not in known, because they would become part of
// the skill. Outside the directories of own it refuses them instead: the user wrote these. Files that no tree
// includes, such as editor backups, stay.
func (w *writer) only(dir string, own []string, known map[string]bool, into *[]string) error {
	err := fs.WalkDir(w.space.FS, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		left := !d.IsDir() && strings.HasPrefix(d.Name(), osfile.Unfinished) // temporary file of a process that died
		switch {
		case d.IsDir() && portable.Droppings(d.Name()):
			return fs.SkipDir
		case d.IsDir() || known[p] || portable.Droppings(d.Name()) && !left:
			return nil
		case !left && !slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(p, o+"/") }):
			return fault.New(fault.Validation, "%q exists and would become part of the skill",
				w.name(p)).Because("nothing was written").
				On("reason", "exists").On("file", w.name(p))
		}
		old, err := w.read(p)
		if err != nil {
			return err
		}
		if w.gone = append(w.gone, *old); !left {
			*into = append(*into, w.name(p))
			w.group().differs = append(w.group().differs, "removed "+w.name(p))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// addItem plans to write an item, which must be valid. An existing item stays if only its signatures differ.
// Otherwise it is replaced if may allows that, else refused.
func (w *writer) addItem(ctx context.Context, ref model.Ref, ext string, text []byte, into *[]string,
	may func(old []byte) bool) error {
	kind, err := w.v.CheckKind(ref.Kind)
	if err != nil {
		return err
	}
	if parsed, err := model.ParseRef(ref.String()); err != nil || parsed != ref {
		return items.BadRef(ref.String(), err)
	}
	file, err := w.v.PathFor(ref, ext)
	if err != nil {
		return fault.Wrap(err, "%q can't be written", ref).On("ref", ref.String())
	}
	it := edit.Draft(ai.File{Ref: ref, Kind: kind, Space: w.space, Path: file}, text)
	if it.Broken != nil {
		return fault.Wrap(it.Broken, "the text of %q contains rye signature lines", ref).On("ref", ref.String())
	}
	if !it.Model.Marked || it.Model.Invalid() {
		return w.v.Invalid(it, w.name(file))
	}
	old, err := w.read(file)
	if err != nil {
		return err
	}
	if old == nil {
		err = w.v.CheckFree(ctx, ref, w.space)
	} else {
		before := edit.Draft(it.File, old.b)
		if before.Broken == nil && before.Stripped == it.Stripped {
			return nil
		}
		if !may(old.b) {
			return fault.New(fault.Validation, "%q exists and was not imported from a skill of this name",
				w.name(file)).Because("nothing was written").
				On("reason", "exists").On("file", w.name(file)).Try("rye show " + fault.Quote(ref.String()))
		}
		w.group().differs = append(w.group().differs, "changed "+w.name(file))
	}
	if err == nil {
		err = w.v.CheckDraft(ctx, it)
	}
	w.files = append(w.files, newFile{path: file, b: text, item: true, ref: ref, old: old})
	*into = append(*into, w.name(file))
	return err
}

// confirm prints the files that would be replaced or removed, and asks. It asks nothing in a dry run or without such
// files.
func (w *writer) confirm(ctx context.Context, a *cli.App) error {
	var names []string
	for _, g := range w.groups {
		if len(g.differs) == 0 {
			continue
		}
		if names = append(names, g.name); g.from != "" {
			a.Term.Note("%s, which was imported from %q, differs:", g.name, g.from)
		} else {
			a.Term.Note("%s differs:", g.name)
		}
		for i, line := range g.differs {
			if i == fault.MaxLines {
				a.Term.Note("    and %d more", len(g.differs)-i)
				break
			}
			a.Term.Note("    %s", line)
		}
	}
	if len(names) == 0 || w.dry {
		return nil
	}
	return a.Confirm(ctx, fmt.Sprintf("replace %s?", strings.Join(names, ", ")))
}

// write removes and writes the planned files, items last. An item whose other files have changed has no valid
// signature, so a process that dies leaves nothing usable, and the same command completes it. After an error, write
// undoes every change.
func (w *writer) write(ctx context.Context) (err error) {
	dir, err := edit.OpenDir(w.space.Dir, w.space.Level)
	if err != nil {
		return err
	}
	defer dir.Close()
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
	}()
	put := func(f *newFile, exclusive bool) error { return dir.Write(f.path, edit.Mode(f.exec), exclusive, f.b) }
	for i := range w.gone {
		if err := dir.Remove(w.gone[i].path); err != nil {
			return err
		}
		undo = append(undo, func() error { return put(&w.gone[i], true) })
	}
	for _, item := range []bool{false, true} {
		for i := range w.files {
			f := &w.files[i]
			if f.item != item {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := put(f, f.old == nil); err != nil {
				return err
			}
			undo = append(undo, func() error {
				if f.old != nil {
					return put(f.old, false)
				}
				return dir.Remove(f.path)
			})
		}
	}
	for _, f := range w.files {
		if f.item {
			w.v.WarnTrees(ctx, w.space, f.path, f.ref)
		}
	}
	return nil
}
