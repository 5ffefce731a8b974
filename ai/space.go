package ai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// A Level orders spaces: an item of a higher one stands in front of those with its id in lower ones, and a link of
// a chain never comes from a higher one than the link before it.
type Level uint8

// The levels, from low to high.
const (
	System Level = iota
	User
	Project
)

// String returns "system", "user" or "project".
func (l Level) String() string { return [...]string{"system", "user", "project"}[l] }

// A Space is one tree of items. It is not changed once a View has it.
type Space struct {
	Label string // "project", "user", "system:rye/std", "system:acme/web"
	Level Level
	// FS holds what is in the directory .ai: "tools/…", "config/…". It may be read by many goroutines. What it says
	// about a file by ReadDir or Lstat must not follow links.
	FS      fs.FS
	Dir     string // where that is on disk, for messages; "" if it isn't
	Builtin bool   // read from the binary, which vouches for it
	// Requires are the labels of the system spaces that items here may use, in addition to their own and the builtin
	// ones. It counts for system spaces alone.
	Requires []string
	// Exec says whether a file may be executed where FS doesn't know, as embed.FS and Windows don't; nil: its mode
	// says so.
	Exec func(name string, info fs.FileInfo) bool

	mu   sync.Mutex
	kept map[File]*Item // as they were read last
}

// A Space keeps a few small items, in whatever View they are read: those of a chain are read at each of its steps, and
// extractors for each View, and mostly they are still the same.
const (
	maxItems    = 256
	maxItemSize = 64 << 10
)

// keeps returns what bytes of a file were found to say when they were last read; nil if s doesn't know.
func (s *Space) keeps(f File, b []byte) *Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.kept[f]; it != nil && bytes.Equal(it.Bytes, b) {
		same := *it
		same.Bytes = b
		return &same
	}
	return nil
}

func (s *Space) keep(f File, it *Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.kept[f]; len(it.Bytes) <= maxItemSize && (known || len(s.kept) < maxItems) {
		if s.kept == nil {
			s.kept = map[File]*Item{}
		}
		same := *it
		same.Bytes = bytes.Clone(it.Bytes)
		s.kept[f] = &same
	}
}

// OpenDir opens the directory .ai on disk. What is read through it is below it, even if another process puts links in
// its place meanwhile. That of a project is in it: a link out of it is refused. The caller closes it.
func OpenDir(dir, label string, level Level) (*Space, error) {
	if level == Project {
		if err := Inside(dir); err != nil {
			return nil, err
		}
	}
	tree, err := nofollow.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Space{Label: label, Level: level, FS: tree, Dir: dir}, nil
}

// Inside refuses a directory that is a link out of its parent: else the author of a project would decide which of the
// user's files are taken for its items.
func Inside(dir string) error {
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	to, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil // it isn't there, or what opens it says why
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return outside(dir)
	}
	if rel, err := filepath.Rel(above, to); err != nil || !filepath.IsLocal(rel) {
		return outside(dir)
	}
	return nil
}

func outside(dir string) error {
	return fault.New(fault.Denied, "%q is a symbolic link out of the project: refusing to follow it", dir).
		On("reason", "link").On("path", dir).Try("ls -l " + fault.Quote(dir))
}

// Below opens a directory of a space on disk by itself: who reads many files there goes the way to it once. The caller
// closes it, and the space may be closed before.
func (s *Space) Below(dir string) (*Space, error) {
	all, ok := s.FS.(*nofollow.FS)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrInvalid}
	}
	tree, err := all.Below(dir)
	if err != nil {
		return nil, err
	}
	return &Space{Label: s.Label, Level: s.Level, FS: tree, Dir: filepath.Join(s.Dir, filepath.FromSlash(dir))}, nil
}

// Close closes a space that OpenDir or Below opened.
func (s *Space) Close() error {
	if tree, ok := s.FS.(*nofollow.FS); ok {
		return tree.Close()
	}
	return nil
}

var errLarge = fmt.Errorf("is larger than the %d MiB that an item may have", parse.MaxFile>>20)

// folder opens a directory of the space to look at its entries one by one. It is fs.ErrNotExist if it doesn't exist,
// and no part of its name is a link.
func (s *Space) folder(dir string) (lstat func(name string) (fs.FileInfo, error), done func() error, err error) {
	if d, ok := s.FS.(*nofollow.FS); ok {
		return d.Folder(dir)
	}
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		info, err := fs.Lstat(s.FS, dir[:i])
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			return nil, nil, nofollow.NotDir(info.Mode())
		}
	}
	return func(name string) (fs.FileInfo, error) {
		return fs.Lstat(s.FS, path.Join(dir, name))
	}, func() error { return nil }, nil
}

// Read reads a file whole, if it is one and not larger than an item may be.
func (s *Space) Read(name string) ([]byte, error) {
	if d, disk := s.FS.(*nofollow.FS); disk {
		b, err := d.ReadSmall(name, parse.MaxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, ErrGone // what is missing elsewhere is missing
		case errors.Is(err, osfile.ErrLarge):
			return nil, errLarge
		}
		return b, err
	}
	info, err := fs.Lstat(s.FS, name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, nofollow.ErrLink
	case !info.Mode().IsRegular():
		return nil, nofollow.ErrSpecial
	case info.Size() > parse.MaxFile:
		return nil, errLarge
	}
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, parse.MaxFile+1))
}

// where names a place for messages: the path on disk, or the space's label and the path in it.
func (s *Space) where(name string) string {
	if s.Dir != "" {
		return filepath.Join(s.Dir, filepath.FromSlash(name))
	}
	return s.Label + "/" + name
}
