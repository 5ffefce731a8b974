package plugin

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// MaxFiles is how many files a plugin has at most.
const MaxFiles = 100_000

// A File is a file of a plugin.
type File struct {
	Path string
	Size int64
	Exec bool
	Link string // the symbolic link by which it is there; empty for none
}

// Mode returns the file's mode.
func (f *File) Mode() cas.Mode {
	if f.Exec {
		return cas.Exec
	}
	return cas.File
}

// A Listing is what is in a plugin's directory.
type Listing struct {
	Files []File // sorted by path

	denied map[string]bool // paths that lead outside
	dirs   map[string]bool
	left   []string // directories and files that no tree has
	found  []Problem
}

// List lists a plugin's directory, whose file system doesn't lead outside of it (os.Root). A symbolic link within it
// is the file or the directory that it leads to.
func List(root fs.FS) (*Listing, error) {
	l := &Listing{denied: map[string]bool{}, dirs: map[string]bool{".": true}}
	top, err := fs.Stat(root, ".")
	if err != nil {
		return nil, err
	}
	if err := l.walk(root, ".", "", []fs.FileInfo{top}); err != nil {
		return nil, err
	}
	slices.SortFunc(l.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if err := portable.CheckSet(func(yield func(string) bool) {
		for i := range l.Files {
			if !yield(l.Files[i].Path) {
				return
			}
		}
	}); err != nil && !slices.ContainsFunc(l.found, func(p Problem) bool { return p.Effect == Rejects }) {
		file := ""
		if bad, ok := errors.AsType[*portable.Error](err); ok {
			file = bad.Path
		}
		l.add(Problem{Path: file, Effect: Rejects, Message: err.Error()})
	}
	return l, nil
}

func (l *Listing) add(found Problem) { l.found = appendProblem(l.found, found) }

// walk lists a directory; link is the symbolic link above it, if there is one, and above are it and the directories
// above.
func (l *Listing) walk(root fs.FS, dir, link string, above []fs.FileInfo) error {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 && dir != "." {
		l.leave(dir, "an empty directory is not part of a bundle")
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if entry.Name() == ".git" || portable.Droppings(entry.Name()) {
			l.leave(name, "files with this name are not part of a bundle")
			continue
		}
		if err := portable.CheckName(entry.Name()); err != nil {
			l.add(Problem{Path: fault.Clip(name, 1000), Effect: Rejects,
				Message: "the path is not portable: " + err.Error()})
			continue
		}
		if err := l.entry(root, name, entry, link, above); err != nil {
			return err
		}
	}
	return nil
}

func (l *Listing) leave(name, why string) {
	l.left = append(l.left, name)
	l.add(Problem{Path: name, Effect: Left, Message: why})
}

func (l *Listing) entry(root fs.FS, name string, entry fs.DirEntry, link string, above []fs.FileInfo) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link = name
		if info, err = fs.Stat(root, name); err != nil {
			l.denied[name] = true
			l.add(Problem{Path: name, Section: "4.1", Effect: Denied,
				Message: "a symbolic link that leads to no file within the plugin"})
			return nil
		}
	}
	switch {
	case info.IsDir() && slices.ContainsFunc(above, func(dir fs.FileInfo) bool { return os.SameFile(dir, info) }):
		l.add(Problem{Path: name, Effect: Rejects, Message: "a symbolic link that leads to a directory it is in"})
		return nil
	case info.IsDir():
		l.dirs[name] = true
		return l.walk(root, name, link, append(above[:len(above):len(above)], info))
	case !info.Mode().IsRegular():
		l.add(Problem{Path: name, Effect: Rejects, Message: "neither a file nor a directory"})
		return nil
	}
	if len(l.Files) == MaxFiles {
		return fault.New(fault.Validation, "the plugin has more than %d files", MaxFiles).On("reason", "files").
			Try("rye docs plugins")
	}
	l.Files = append(l.Files, File{Path: name, Size: info.Size(), Exec: info.Mode().Perm()&0o100 != 0, Link: link})
	return nil
}

// File returns the file at a path, or nil.
func (l *Listing) File(name string) *File {
	i, ok := l.search(name)
	if !ok {
		return nil
	}
	return &l.Files[i]
}

func (l *Listing) search(name string) (int, bool) {
	return slices.BinarySearchFunc(l.Files, name, func(f File, name string) int { return cmp.Compare(f.Path, name) })
}

// below returns the files below a directory.
func (l *Listing) below(dir string) []File {
	from, _ := l.search(dir + "/")
	n := 0
	for n < len(l.Files)-from && strings.HasPrefix(l.Files[from+n].Path, dir+"/") {
		n++
	}
	return l.Files[from : from+n]
}

// leaves returns the path, or one above it, that is left out; empty if none is.
func (l *Listing) leaves(name string) string {
	for _, left := range l.left {
		if name == left || strings.HasPrefix(name, left+"/") {
			return left
		}
	}
	return ""
}

// leadsOut reports whether a path, or one above it, is a symbolic link that leads outside.
func (l *Listing) leadsOut(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if l.denied[name] {
			return true
		}
	}
	return false
}
