// Package snapshot is a file system of a list of files whose bytes are in a store.
package snapshot

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// FS returns the files below dir, of a list sorted by path, as a file system that reads their bytes from src. dir "."
// is the whole list; an ai.Space reads FS(ctx, src, files, ".ai"). Each read hashes the bytes, and a file that differs
// from the list ends in an error instead of io.EOF.
//
// Modes are 0755 and 0644, times are zero. Goroutines may share it until ctx ends.
func FS(ctx context.Context, src cas.Getter, files []manifest.File, dir string) fs.FS {
	s := snapshot{ctx: ctx, src: src, files: files}
	if dir != "." {
		s.prefix = dir + "/"
	}
	return s
}

// A snapshot is a sorted list of files. Its directories are the common prefixes of paths.
type snapshot struct {
	ctx    context.Context
	src    cas.Getter
	files  []manifest.File
	prefix string // "", or a directory with a trailing slash
}

// within returns the files below a directory, which are adjacent in the list.
func (s snapshot) within(prefix string) []manifest.File {
	if prefix == "" {
		return s.files
	}
	from, _ := slices.BinarySearchFunc(s.files, prefix, byPath)
	// "0" sorts right after "/", so this is the first path after the directory.
	to, _ := slices.BinarySearchFunc(s.files, prefix[:len(prefix)-1]+"0", byPath)
	return s.files[from:to]
}

func byPath(f manifest.File, path string) int { return strings.Compare(f.Path, path) }

// find returns the file of a name, or the files below the directory of that name with their common prefix.
func (s snapshot) find(op, name string) (f *manifest.File, below []manifest.File, prefix string, err error) {
	bad := func(err error) (*manifest.File, []manifest.File, string, error) {
		return nil, nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return bad(fs.ErrInvalid)
	}
	if name == "." {
		return nil, s.within(s.prefix), s.prefix, nil
	}
	if i, ok := slices.BinarySearchFunc(s.files, s.prefix+name, byPath); ok {
		return &s.files[i], nil, "", nil
	}
	prefix = s.prefix + name + "/"
	if below = s.within(prefix); len(below) == 0 {
		return bad(fs.ErrNotExist)
	}
	return nil, below, prefix, nil
}

// Open implements fs.FS.
func (s snapshot) Open(name string) (fs.File, error) {
	file, below, prefix, err := s.find("open", name)
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return &openDir{info: info{name: path.Base(name), mode: fs.ModeDir | 0o755}, path: name,
			entries: entries(below, prefix)}, nil
	}
	o, err := s.src.Get(s.ctx, cas.ID{Kind: cas.Blob, Digest: file.Digest})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if o.Size != file.Size {
		o.Close()
		return nil, &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("has %d bytes, the manifest says %d", o.Size, file.Size)}
	}
	return openFile{o, infoOf(file)}, nil
}

// Lstat implements fs.ReadLinkFS. No file is a link.
func (s snapshot) Lstat(name string) (fs.FileInfo, error) {
	f, _, _, err := s.find("stat", name)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return info{name: path.Base(name), mode: fs.ModeDir | 0o755}, nil
	}
	return infoOf(f), nil
}

// Stat implements fs.StatFS.
func (s snapshot) Stat(name string) (fs.FileInfo, error) { return s.Lstat(name) }

// ReadLink implements fs.ReadLinkFS.
func (s snapshot) ReadLink(name string) (string, error) {
	if _, err := s.Lstat(name); err != nil {
		return "", err
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFS.
func (s snapshot) ReadDir(name string) ([]fs.DirEntry, error) {
	f, below, prefix, err := s.find("readdir", name)
	switch {
	case err != nil:
		return nil, err
	case f != nil:
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errNoDir}
	}
	return entries(below, prefix), nil
}

var errNoDir = fmt.Errorf("not a directory: %w", fs.ErrInvalid)

// entries lists a directory, given all files below it.
func entries(below []manifest.File, prefix string) []fs.DirEntry {
	var list []fs.DirEntry
	for i := 0; i < len(below); {
		name, _, isDir := strings.Cut(below[i].Path[len(prefix):], "/")
		if !isDir {
			list = append(list, infoOf(&below[i]))
			i++
			continue
		}
		list = append(list, info{name: name, mode: fs.ModeDir | 0o755})
		n, _ := slices.BinarySearchFunc(below[i:], prefix+name+"0", byPath)
		i += n
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// An info describes a file or directory. It is its own directory entry.
type info struct {
	name string
	mode fs.FileMode
	size int64
}

func infoOf(f *manifest.File) info {
	i := info{name: path.Base(f.Path), mode: 0o644, size: f.Size}
	if f.Mode == cas.Exec {
		i.mode = 0o755
	}
	return i
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) Type() fs.FileMode          { return i.mode.Type() }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }
func (i info) String() string             { return fs.FormatFileInfo(i) }

type openFile struct {
	cas.Object
	info info
}

func (f openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

type openDir struct {
	info    info
	path    string
	entries []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.entries) {
		n = len(d.entries)
	}
	list := d.entries[:n]
	d.entries = d.entries[n:]
	return list, nil
}
