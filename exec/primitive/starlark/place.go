package starlark

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

const (
	// MaxRead bounds a single read of a file, in bytes.
	MaxRead = 64 << 20
	// MaxEntries bounds the entries of a directory, or of a walk.
	MaxEntries = 100_000

	maxLinks = 40
)

// A right is the kind of access to a path and everything below it.
type right uint8

const (
	nothing right = iota
	reading
	writing
)

// A grant is the right to a path of the project and everything below it.
type grant struct {
	path  string // relative to the project, with "/"
	right right
}

// A place is the granted part of a project. Paths are relative to the project, with "/"; absolute paths in the
// project are accepted too. For each file the nearest grant above it decides. Case is ignored, so that .GIT can't
// stand for .git on file systems that ignore case.
//
// The sandbox confines the process as well, as far as the machine can. This check also works without it.
type place struct {
	project string
	grants  []grant
	roots   map[string]*os.Root // of the grants, opened on first use; nil for a file
}

// newPlace returns the place of a project with these absolute paths. It ignores paths outside the project.
func newPlace(project string, read, write, deny []string) *place {
	p := &place{project: project, roots: map[string]*os.Root{}}
	for r, list := range [][]string{nothing: deny, reading: read, writing: write} {
		for _, abs := range list {
			if rel, err := filepath.Rel(project, abs); err == nil && filepath.IsLocal(rel) {
				p.grants = append(p.grants, grant{filepath.ToSlash(rel), right(r)})
			}
		}
	}
	return p
}

// close closes the opened roots.
func (p *place) close() {
	for _, r := range p.roots {
		if r != nil {
			r.Close()
		}
	}
}

// A fileError is a path and the reason why an operation on it failed.
type fileError struct{ path, reason string }

func (e *fileError) Error() string { return fmt.Sprintf("%q %s", e.path, e.reason) }

// about turns a system error into one that names a path of the project.
func about(at string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fileError{at, "not found"}
	case errors.Is(err, fs.ErrPermission):
		return &fileError{at, "permission denied"}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &fileError{at, err.Error()}
}

// clean returns a path in the form of the grants.
func (p *place) clean(at string) (string, error) {
	rel := filepath.FromSlash(at)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(p.project, rel); err != nil {
			return "", &fileError{at, "is not in the project"}
		}
	}
	rel = filepath.Clean(rel)
	if at == "" || strings.IndexByte(rel, 0) >= 0 || !filepath.IsLocal(rel) {
		return "", &fileError{at, "is not in the project"}
	}
	return filepath.ToSlash(rel), nil
}

// above reports whether a path is dir or below it, and the number of segments of dir.
func above(dir, at string) (int, bool) {
	if dir == "." {
		return 0, true
	}
	a, b := strings.Split(dir, "/"), strings.Split(at, "/")
	if len(a) > len(b) {
		return 0, false
	}
	for i := range a {
		if !strings.EqualFold(a[i], b[i]) {
			return 0, false
		}
	}
	return len(a), true
}

// decide returns the grant that applies to a path.
func (p *place) decide(at string) (nearest grant) {
	depth := -1
	for _, g := range p.grants {
		n, ok := above(g.path, at)
		if !ok {
			continue
		}
		// Among grants of the same path a denial wins, then writing.
		if n > depth || n == depth && (g.right == nothing || nearest.right != nothing && g.right > nearest.right) {
			nearest, depth = g, n
		}
	}
	return nearest
}

// may returns the grant for a path if it allows the needed right.
func (p *place) may(at string, need right) (grant, error) {
	granted := p.decide(at)
	switch {
	case granted.right >= need:
		return granted, nil
	case granted.right == nothing:
		return granted, &fileError{at, "is not granted: the tool lists the files that it needs under files:"}
	}
	return granted, &fileError{at, "may be read but not written"}
}

// resolve follows the symbolic links in a path while they stay in the project. If follow is false, links are errors.
func (p *place) resolve(at string, follow bool) (string, error) {
	rest, done, links := strings.Split(at, "/"), ".", 0
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		abs := p.abs(next)
		info, err := os.Lstat(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path.Join(append([]string{next}, rest...)...), nil
		case err != nil:
			return "", about(next, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		case !follow:
			return "", &fileError{next, "is a symbolic link, which writing doesn't follow"}
		}
		if links++; links > maxLinks {
			return "", &fileError{at, "has too many symbolic links in its path"}
		}
		to, err := os.Readlink(abs)
		if err != nil {
			return "", about(next, err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(abs), to)
		}
		if to, err = p.clean(to); err != nil {
			return "", &fileError{next, "is a symbolic link that leads out of the project"}
		}
		rest, done = append(strings.Split(to, "/"), rest...), "."
	}
	return done, nil
}

func (p *place) abs(at string) string { return filepath.Join(p.project, filepath.FromSlash(at)) }

// below returns the directory of a grant, and the path in it. The grant of a single file has no root.
func (p *place) below(grant grant, at string) (*os.Root, string, error) {
	root, known := p.roots[grant.path]
	if !known {
		info, err := os.Lstat(p.abs(grant.path))
		if err != nil {
			return nil, "", about(at, err)
		}
		if info.IsDir() {
			if root, err = os.OpenRoot(p.abs(grant.path)); err != nil {
				return nil, "", about(at, err)
			}
		}
		p.roots[grant.path] = root
	}
	if grant.path == "." {
		return root, filepath.FromSlash(at), nil
	}
	// Count segments, since the case may differ.
	rest := strings.Join(strings.Split(at, "/")[strings.Count(grant.path, "/")+1:], "/")
	if root == nil && rest != "" {
		return nil, "", &fileError{at, "not found"}
	}
	return root, filepath.FromSlash(path.Join(".", rest)), nil
}

// open opens a file or directory for reading, and returns its real path.
func (p *place) open(at string) (*os.File, fs.FileInfo, string, error) {
	at, err := p.clean(at)
	if err != nil {
		return nil, nil, "", err
	}
	real, err := p.resolve(at, true)
	if err != nil {
		return nil, nil, "", err
	}
	g, err := p.may(real, reading)
	if err != nil {
		return nil, nil, "", err
	}
	root, rest, err := p.below(g, real)
	if err != nil {
		return nil, nil, "", err
	}
	f, info, err := openRegular(root, rest, p.abs(real))
	return f, info, real, about(at, err)
}

// openRegular opens only a file or a directory, since opening a pipe may block for ever.
func openRegular(root *os.Root, rest, abs string) (file *os.File, info fs.FileInfo, err error) {
	if root == nil {
		info, err = os.Lstat(abs)
	} else {
		info, err = root.Lstat(rest)
	}
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errors.New("is neither a file nor a directory")
	}
	if err != nil {
		return nil, nil, err
	}
	if root == nil {
		file, err = os.Open(abs)
	} else {
		file, err = root.Open(rest)
	}
	if err != nil {
		return nil, nil, err
	}
	now, err := file.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = errors.New("was replaced while it was opened")
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, now, nil
}

// read returns at most most bytes of a file from an offset.
func (p *place) read(at string, offset, most int64) ([]byte, error) {
	f, info, _, err := p.open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.IsDir() {
		return nil, &fileError{at, "is a directory"}
	}
	b := make([]byte, max(0, min(most, info.Size()-offset)))
	n, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], about(at, err)
}

// stat returns the facts about a path, or nil for a missing file.
func (p *place) stat(at string) (fs.FileInfo, error) {
	at, err := p.clean(at)
	if err != nil {
		return nil, err
	}
	real, err := p.resolve(at, true)
	if err == nil {
		_, err = p.may(real, reading)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(p.abs(real))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, about(at, err)
}

// list returns the granted entries of a directory, sorted, and its real path.
func (p *place) list(at string) ([]fs.DirEntry, string, error) {
	f, info, real, err := p.open(at)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if !info.IsDir() {
		return nil, "", &fileError{at, "is not a directory"}
	}
	entries, err := f.ReadDir(MaxEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(entries) > MaxEntries {
		err = fmt.Errorf("has more than %d entries", MaxEntries)
	}
	if err != nil {
		return nil, "", about(at, err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return p.decide(path.Join(real, e.Name())).right == nothing
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, real, nil
}

// write creates or replaces a file, and creates its directories. Other readers see the old text or the new one,
// unless only this one file was granted: then write rewrites it in place.
func (p *place) write(at, text string) (made bool, err error) {
	at, err = p.clean(at)
	if err != nil {
		return false, err
	}
	real, err := p.resolve(at, false)
	if err != nil {
		return false, err
	}
	if err := portable.Check(real); err != nil {
		return false, fmt.Errorf("invalid file name: %w", err)
	}
	g, err := p.may(real, writing)
	if err != nil {
		return false, err
	}
	root, rest, err := p.below(g, real)
	if err != nil {
		return false, err
	}
	if root == nil {
		return false, about(at, overwrite(p.abs(real), text))
	}
	made, err = replace(root, rest, text)
	return made, about(at, err)
}

// overwrite rewrites an existing file in place.
func overwrite(abs, text string) error {
	f, err := os.OpenFile(abs, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Sync(), f.Close())
}

// replace creates a file or atomically replaces it.
func replace(root *os.Root, rest, text string) (made bool, err error) {
	mode := fs.FileMode(0o666)
	info, err := root.Lstat(rest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made = true
		if err := root.MkdirAll(filepath.Dir(rest), 0o777); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, errors.New("is not a regular file")
	default:
		mode = info.Mode().Perm()
	}
	f, name, err := temporary(root, filepath.Dir(rest), mode)
	if err != nil {
		return false, err
	}
	_, err = io.WriteString(f, text)
	if err == nil && !made {
		err = f.Chmod(mode) // the umask may have removed bits
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(name, rest)
	}
	if err != nil {
		return false, errors.Join(err, root.Remove(name))
	}
	return made, nil
}

// temporary creates a file with an unused name.
func temporary(root *os.Root, dir string, mode fs.FileMode) (*os.File, string, error) {
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprintf(".rye-%d.tmp", i))
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil || !errors.Is(err, fs.ErrExist) || i == 1000 {
			return f, name, err
		}
	}
}
