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

// A Level orders spaces: an item of a higher level hides those with its id in lower ones, and a link of a chain never
// comes from a higher level than the link before it.
type Level uint8

// The levels, from low to high.
const (
	System Level = iota
	User
	Project
)

// String returns "system", "user" or "project".
func (l Level) String() string { return [...]string{"system", "user", "project"}[l] }

// A Space is one tree of items. It doesn't change once a View has it.
type Space struct {
	Label string // "project", "user", "system:rye/std", "system:acme/web"
	Level Level
	// FS holds the content of the directory .ai: "tools/…", "config/…". It must be safe for concurrent use, and its
	// ReadDir and Lstat must not follow links.
	FS      fs.FS
	Dir     string // its path on disk, for messages; "" if it isn't on disk
	Builtin bool   // part of the binary, which makes it trusted
	// Requires are the labels of other system spaces whose items may be used here, in addition to the builtin ones.
	// Only system spaces have it.
	Requires []string
	// Exec reports whether a file is executable where FS doesn't know it, as with embed.FS and Windows. Nil: the
	// file's mode decides.
	Exec func(name string, info fs.FileInfo) bool

	mu     sync.Mutex
	parsed map[File]*Item // the items read last
}

// A Space caches a few small items for all Views: each step of a chain reads its links, and each View reads the
// extractors, mostly unchanged.
const (
	maxItems    = 256
	maxItemSize = 64 << 10
)

// cached returns the item parsed from exactly these bytes earlier, or nil.
func (s *Space) cached(f File, b []byte) *Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.parsed[f]; it != nil && bytes.Equal(it.Bytes, b) {
		same := *it
		same.Bytes = b
		return &same
	}
	return nil
}

func (s *Space) cache(f File, it *Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.parsed[f]; len(it.Bytes) <= maxItemSize && (known || len(s.parsed) < maxItems) {
		if s.parsed == nil {
			s.parsed = map[File]*Item{}
		}
		same := *it
		same.Bytes = bytes.Clone(it.Bytes)
		s.parsed[f] = &same
	}
}

// OpenDir opens the directory .ai on disk. All reads stay below it, even if another process replaces parts of it by
// links. It refuses a project's .ai that links out of the project. The caller closes it.
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

// Inside refuses a directory that is a link out of its parent: otherwise a project's author could make any of the
// user's files items of the project.
func Inside(dir string) error {
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	to, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil // missing, or opening it returns the error
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

// Below opens a directory of a space on disk, so that reading many files there resolves its path once. The caller
// closes it, and may close the space before.
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

// folder opens a directory of the space to look at its entries one by one. The error is fs.ErrNotExist if the
// directory doesn't exist. No part of its path may be a link.
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

// Read reads a whole regular file that isn't larger than an item may be.
func (s *Space) Read(name string) ([]byte, error) {
	if d, disk := s.FS.(*nofollow.FS); disk {
		b, err := d.ReadSmall(name, parse.MaxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, ErrGone // other files that are missing
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

// where returns a path for messages: on disk, or the space's label and the path in it.
func (s *Space) where(name string) string {
	if s.Dir != "" {
		return filepath.Join(s.Dir, filepath.FromSlash(name))
	}
	return s.Label + "/" + name
}
