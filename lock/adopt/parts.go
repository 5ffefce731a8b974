package adopt

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// Parts plans the files of an unsigned plugin, and the removal of all other files below its id, which is its alone.
// Without files it removes the plugin. The items among them are signed already.
func (w *Plan) Parts(id string, files []skill.File) error {
	w.Begin(id)
	want := map[string]bool{}
	for i := range files {
		f := &files[i]
		want[f.Path] = true
		n := len(w.files)
		if err := w.addFile(f.Path, f.Bytes, f.Exec, new([]string)); err != nil {
			return err
		}
		if len(w.files) > n {
			w.files[n].item = isItem(f.Path)
		}
	}
	for _, dir := range DirsOf(id) {
		if err := w.others(dir, want); err != nil {
			return err
		}
	}
	return nil
}

// Remove plans the removal of files, as a group.
func (w *Plan) Remove(group string, files []string) error {
	w.Begin(group)
	for _, file := range files {
		old, err := w.read(file)
		if err != nil {
			return err
		}
		if old != nil {
			w.gone = append(w.gone, *old)
			w.group().Differs = append(w.group().Differs, "removed "+w.Name(file))
		}
	}
	return nil
}

// DirsOf returns the directories of a plugin's items in a space.
func DirsOf(id string) []string { return []string{"directives/" + id, "tools/" + id} }

// isItem reports whether a file of a plugin's items is one of them, by its path: other files lie below a directory
// whose name begins with "_", or have such a name.
func isItem(file string) bool { return !strings.Contains("/"+file, "/_") }

// others plans to remove the files below a directory that aren't wanted.
func (w *Plan) others(dir string, want map[string]bool) error {
	err := fs.WalkDir(w.space.FS, dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || want[file]:
			return err
		case !d.Type().IsRegular():
			return fault.New(fault.Denied, "%q is not a regular file", w.Name(file)).On("reason", "special").
				On("path", w.Name(file)).Because("nothing was written")
		}
		old, err := w.read(file)
		if err != nil {
			return err
		}
		w.gone = append(w.gone, *old)
		if !strings.HasPrefix(path.Base(file), osfile.Unfinished) {
			w.group().Differs = append(w.group().Differs, "removed "+w.Name(file))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Bytes returns the bytes of a file of the space; nil without one.
func (w *Plan) Bytes(file string) []byte {
	old, err := w.read(file)
	if old == nil || err != nil {
		return nil
	}
	return old.b
}

// Changes returns how many files the plan writes and removes.
func (w *Plan) Changes() int { return len(w.files) + len(w.gone) }
