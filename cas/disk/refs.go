package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rye-build/rye/cas"
)

// A Ref is a name for an object; what can be reached from it is kept.
type Ref struct {
	Name string
	ID   cas.ID
}

// A ConflictError says that a ref was not what the caller thought it was.
type ConflictError struct {
	Name        string
	Found, Want cas.ID // the zero ID stands for none
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the ref %q is %s, not %s", e.Name, orNone(e.Found), orNone(e.Want))
}

func orNone(id cas.ID) string {
	if id == (cas.ID{}) {
		return "unset"
	}
	return id.String()
}

// ErrRefName is what is wrong with a name for a ref.
var ErrRefName = errors.New("a ref's name is segments of letters, digits, '.', '_' and '-', which begin with a letter or digit, joined by '/', 200 bytes at most, and 250 if capitals are counted twice")

// CheckRefName returns nil or an error that wraps ErrRefName.
func CheckRefName(name string) error {
	bad, long := len(name) == 0 || len(name) > 200, len(name)
	for seg := range strings.SplitSeq(name, "/") {
		for i := range len(seg) {
			c := seg[i]
			if 'A' <= c && c <= 'Z' {
				long++ // two bytes in the name of its file
			}
			alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
			bad = bad || !alnum && (i == 0 || c != '.' && c != '_' && c != '-')
		}
		bad = bad || seg == ""
	}
	if bad || long > 250 {
		return fmt.Errorf("%q: %w", name, ErrRefName)
	}
	return nil
}

// refPath is where a ref is kept: one directory for all, so that "a" and "a/b" can both be names. Letters of
// upper case are marked, for file systems that fold them.
func (s *Store) refPath(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '/':
			b.WriteByte('+')
		case 'A' <= c && c <= 'Z':
			b.WriteByte('^')
			b.WriteByte(c + 'a' - 'A')
		default:
			b.WriteByte(c)
		}
	}
	return filepath.Join(s.dir, "refs", b.String()+".ref")
}

// refName is refPath backwards.
func refName(file string) (string, bool) {
	text, ok := strings.CutSuffix(file, ".ref")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			b.WriteByte('/')
		case c == '^' && i+1 < len(text):
			i++
			b.WriteByte(text[i] - 'a' + 'A')
		default:
			b.WriteByte(c)
		}
	}
	name := b.String()
	return name, ok && CheckRefName(name) == nil
}

// Ref returns what a name stands for, or fs.ErrNotExist.
func (s *Store) Ref(name string) (cas.ID, error) {
	if err := CheckRefName(name); err != nil {
		return cas.ID{}, err
	}
	b, err := readFile(s.refPath(name), 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cas.ID{}, fmt.Errorf("the ref %q: %w", name, fs.ErrNotExist)
	case errors.Is(err, ErrFormat), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EIO):
		return cas.ID{}, &RefError{name, err}
	case err != nil:
		return cas.ID{}, err
	}
	return parseRef(name, b)
}

// A RefError says that the file of a ref cannot be read as one.
type RefError struct {
	Name string
	Err  error // why it could not be read; nil when it was, and is not what was written
}

func (e *RefError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the ref %q is damaged: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("the ref %q is damaged", e.Name)
}

func (e *RefError) Unwrap() error { return e.Err }

// A ref's file repeats its name, so that one in another's place is noticed.
func refText(name string, id cas.ID) string {
	line := name + " " + id.String()
	return line + " " + cas.Sum([]byte(line)).Short() + "\n"
}

func parseRef(name string, b []byte) (cas.ID, error) {
	f := strings.Fields(string(b))
	if len(f) == 4 {
		kind, ok := cas.ParseKind(f[1])
		d, err := cas.ParseDigest(f[2])
		if id := (cas.ID{Kind: kind, Digest: d}); ok && err == nil && refText(name, id) == string(b) {
			return id, nil
		}
	}
	return cas.ID{}, &RefError{Name: name}
}

// Refs returns all refs, sorted by name. Damaged ones are left out, and named in the error.
func (s *Store) Refs() ([]Ref, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, "refs"))
	if err != nil {
		return nil, err
	}
	var refs []Ref
	var errs []error
	for _, f := range files {
		name, ok := refName(f.Name())
		if !ok {
			errs = append(errs, &RefError{f.Name(), ErrRefFile})
			continue
		}
		id, err := s.Ref(name)
		switch {
		case err == nil:
			refs = append(refs, Ref{name, id})
		case !errors.Is(err, fs.ErrNotExist): // removed since the listing
			errs = append(errs, err)
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return refs, errors.Join(errs...)
}

// ErrRefFile is what is wrong with a file that stands among those of refs and has a name that none of them has.
var ErrRefFile = errors.New("its file in the store's directory refs is not named as that of a ref; who knows that it is none takes it away")

func (s *Store) lockRefs(ctx context.Context) (*os.File, error) {
	return s.acquire(ctx, "refs.lock")
}

// SetRef makes name stand for id if it stands for old now; the zero ID is an unset ref. It returns
// *ConflictError when it stands for something else, and fs.ErrNotExist when the store lacks id.
func (s *Store) SetRef(ctx context.Context, name string, old, id cas.ID) error {
	return s.changeRef(ctx, name, id, func(found cas.ID, err error) error {
		if err == nil && found != old {
			err = &ConflictError{name, found, old}
		}
		return err
	})
}

// PutRef makes name stand for id, whatever it stood for, damaged or not.
func (s *Store) PutRef(ctx context.Context, name string, id cas.ID) error {
	return s.changeRef(ctx, name, id, func(_ cas.ID, err error) error {
		if _, damaged := errors.AsType[*RefError](err); damaged {
			return nil
		}
		return err
	})
}

// changeRef makes name stand for id if allow, told what it stands for now, returns nil.
func (s *Store) changeRef(ctx context.Context, name string, id cas.ID, allow func(found cas.ID, err error) error) error {
	if s.readOnly {
		return s.errReadOnly()
	}
	if err := CheckRefName(name); err != nil {
		return err
	}
	lock, err := s.lockRefs(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	found, err := s.Ref(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // unset
	}
	if err := allow(found, err); err != nil {
		return err
	}
	path := s.refPath(name)
	if id == (cas.ID{}) {
		if err := s.files.remove(path); err != nil {
			return err
		}
		return s.files.syncDir(filepath.Dir(path))
	}
	if id == found {
		// Whoever set it may not have come to sync it.
		return s.files.syncDir(filepath.Dir(path))
	}
	// Under the lock, gc can't take the object away between this look and the ref; and what it is about to remove
	// it will see to be reachable.
	snap, err := s.load()
	if err != nil {
		return err
	}
	if !s.holds(snap, id) {
		return fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	// What it names, and what that refers to, must not be younger on disk than the ref.
	if err := s.settle(snap); err != nil {
		return err
	}
	return s.files.writeFile(path, filepath.Join(s.dir, "tmp", "ref-"+randomName()), []byte(refText(name, id)))
}
