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
	// MaxRead is how much of a file is read at once.
	MaxRead = 64 << 20
	// MaxEntries is how many entries a directory, or a walk, may have.
	MaxEntries = 100_000

	maxLinks = 40
)

// A right is what may be done below a path.
type right uint8

const (
	nothing right = iota
	reading
	writing
)

// A grant is a path of the project and what may be done with it and below it.
type grant struct {
	path  string // relative to the project, with "/"
	right right
}

// A place is the part of a project that was granted. Paths are relative to the project, with "/"; one that begins with the
// project's own path is taken for that. The nearest grant above a file decides. Names are compared without regard to
// case, so that .GIT is no way to .git where these are one.
//
// The operating system confines this process, too, as far as it can. That is another wall: this one holds alone.
type place struct {
	project string
	grants  []grant
	roots   map[string]*os.Root // of the grants, opened when they are first used; nil for a file
}

// newPlace returns the place of a project with these absolute paths; those outside of the project are passed over.
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

// close closes what was opened.
func (p *place) close() {
	for _, r := range p.roots {
		if r != nil {
			r.Close()
		}
	}
}

// A fileError says why something can't be done with a path.
type fileError struct{ path, reason string }

func (e *fileError) Error() string { return fmt.Sprintf("%q %s", e.path, e.reason) }

// told makes errors of the system ones that speak of the project's paths alone.
func told(at string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fileError{at, "isn't there"}
	case errors.Is(err, fs.ErrPermission):
		return &fileError{at, "can't be opened: permission denied"}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &fileError{at, err.Error()}
}

// clean returns a path as grants have it.
func (p *place) clean(at string) (string, error) {
	rel := filepath.FromSlash(at)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(p.project, rel); err != nil {
			return "", &fileError{at, "isn't in the project"}
		}
	}
	rel = filepath.Clean(rel)
	if at == "" || strings.IndexByte(rel, 0) >= 0 || !filepath.IsLocal(rel) {
		return "", &fileError{at, "isn't in the project"}
	}
	return filepath.ToSlash(rel), nil
}

// above reports whether a path is another, or in it, and how many segments that one has.
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

// decide returns the grant that decides about a path.
func (p *place) decide(at string) (nearest grant) {
	depth := -1
	for _, g := range p.grants {
		n, ok := above(g.path, at)
		if !ok {
			continue
		}
		// Of two about one path the narrower counts, but what may be written may be read.
		if n > depth || n == depth && (g.right == nothing || nearest.right != nothing && g.right > nearest.right) {
			nearest, depth = g, n
		}
	}
	return nearest
}

// may returns the grant of a path if it allows as much.
func (p *place) may(at string, need right) (grant, error) {
	g := p.decide(at)
	switch {
	case g.right >= need:
		return g, nil
	case g.right == nothing:
		return g, &fileError{at, "isn't granted: files: in the tool says which files of the project it needs"}
	case path.Dir(at) == "." && slices.ContainsFunc(p.grants, func(g grant) bool { return g.right == writing && path.Dir(g.path) == "." }):
		// What isn't there yet can't be kept from being made while something beside it may be.
		return g, &fileError{at, "can't be made in the project's own directory before .ai, .git, rye.lock and rye.yaml are there: " +
			"put it into a directory"}
	}
	return g, &fileError{at, "may be read and not be written"}
}

// resolve follows the links in a path, which may lead to what is granted and nowhere else. Who wants to write follows none.
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
			return "", told(next, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		case !follow:
			return "", &fileError{next, "is a symbolic link, and nothing is written through one"}
		}
		if links++; links > maxLinks {
			return "", &fileError{at, "leads through too many links"}
		}
		to, err := os.Readlink(abs)
		if err != nil {
			return "", told(next, err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(abs), to)
		}
		if to, err = p.clean(to); err != nil {
			return "", &fileError{next, "is a link that leads out of the project"}
		}
		rest, done = append(strings.Split(to, "/"), rest...), "."
	}
	return done, nil
}

func (p *place) abs(at string) string { return filepath.Join(p.project, filepath.FromSlash(at)) }

// below returns the directory of a grant, and where in it a path is. Where the grant is a file there is no root.
func (p *place) below(g grant, at string) (*os.Root, string, error) {
	r, known := p.roots[g.path]
	if !known {
		info, err := os.Lstat(p.abs(g.path))
		if err != nil {
			return nil, "", told(at, err)
		}
		if info.IsDir() {
			if r, err = os.OpenRoot(p.abs(g.path)); err != nil {
				return nil, "", told(at, err)
			}
		}
		p.roots[g.path] = r
	}
	if g.path == "." {
		return r, filepath.FromSlash(at), nil
	}
	// By length: it may be written otherwise.
	rest := strings.Join(strings.Split(at, "/")[strings.Count(g.path, "/")+1:], "/")
	if r == nil && rest != "" {
		return nil, "", &fileError{at, "isn't there"}
	}
	return r, filepath.FromSlash(path.Join(".", rest)), nil
}

// open opens a file or directory to read it, and returns where it really is.
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
	return f, info, real, told(at, err)
}

// openRegular opens a file or a directory and nothing else: to open a pipe may take forever.
func openRegular(root *os.Root, rest, abs string) (f *os.File, info fs.FileInfo, err error) {
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
		f, err = os.Open(abs)
	} else {
		f, err = root.Open(rest)
	}
	if err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = errors.New("became another file while it was opened")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, now, nil
}

// read returns bytes of a file from an offset on, at most as many as most.
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
	return b[:n], told(at, err)
}

// stat returns what there is under a path; nil if nothing is.
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
	return info, told(at, err)
}

// list returns the entries of a directory that may be read, sorted, and where it really is.
func (p *place) list(at string) ([]fs.DirEntry, string, error) {
	f, info, real, err := p.open(at)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if !info.IsDir() {
		return nil, "", &fileError{at, "is no directory"}
	}
	entries, err := f.ReadDir(MaxEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(entries) > MaxEntries {
		err = fmt.Errorf("has more than %d entries", MaxEntries)
	}
	if err != nil {
		return nil, "", told(at, err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return p.decide(path.Join(real, e.Name())).right == nothing })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, real, nil
}

// write makes a file of text, with the directories that it is in, or replaces what is in one. Who reads it meanwhile sees the old text
// or the new one, unless this one file was granted by itself: then there is no other place to put it together.
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
		return false, fmt.Errorf("no file is written under such a name: %w", err)
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
		return false, told(at, fill(p.abs(real), text))
	}
	made, err = replace(root, rest, text)
	return made, told(at, err)
}

// fill writes into a file that is there.
func fill(abs, text string) error {
	f, err := os.OpenFile(abs, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Sync(), f.Close())
}

// replace puts a new file where one was or none.
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
		return false, errors.New("is no regular file")
	default:
		mode = info.Mode().Perm()
	}
	f, name, err := temporary(root, filepath.Dir(rest), mode)
	if err != nil {
		return false, err
	}
	_, err = io.WriteString(f, text)
	if err == nil && !made {
		err = f.Chmod(mode) // what the mask has taken away
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(name, rest)
	}
	if err != nil {
		return false, errors.Join(err, root.Remove(name))
	}
	return made, nil
}

// temporary makes a file under a new name.
func temporary(root *os.Root, dir string, mode fs.FileMode) (*os.File, string, error) {
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprintf(".rye-%d.tmp", i))
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil || !errors.Is(err, fs.ErrExist) || i == 1000 {
			return f, name, err
		}
	}
}
