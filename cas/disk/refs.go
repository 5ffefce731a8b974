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
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// A Ref is a name for an object. gc keeps everything that is reachable from it.
type Ref struct {
	Name string
	ID   cas.ID
}

// A ConflictError reports a ref that changed since the caller read it.
type ConflictError struct {
	Name        string
	Found, Want cas.ID // zero for an unset ref
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the ref %q is %s, not %s", e.Name, orNone(e.Found), orNone(e.Want))
}

// Fault returns e with its code.
func (e *ConflictError) Fault() *fault.Error {
	return fault.New(fault.Conflict, "%s", e).From(e).Try(fault.Command("rye store refs", e.Name))
}

func orNone(id cas.ID) string {
	if id == (cas.ID{}) {
		return "unset"
	}
	return id.String()
}

// CheckRefName returns an error if name can't be the name of a ref.
func CheckRefName(name string) error {
	bad, long := len(name) == 0 || len(name) > 200, len(name)
	for seg := range strings.SplitSeq(name, "/") {
		for i := range len(seg) {
			if c := seg[i]; 'A' <= c && c <= 'Z' {
				long++ // two bytes in the name of its file
			}
		}
		bad = bad || !portable.Spelled(seg, portable.Letters+portable.Digits, "._-", len(seg))
	}
	if bad || long > 250 {
		return fault.New(fault.Validation,
			"invalid ref name %q: expected segments joined by \"/\", each a letter or digit followed by letters, digits, \".\", \"_\" or \"-\"; "+
				"at most 200 bytes, or 250 with capitals counted twice", name)
	}
	return nil
}

// refPath returns the path of a ref's file. All refs share one directory, so that "a" and "a/b" can both be names.
// Upper case letters are marked, for file systems that fold case.
func (s *Store) refPath(name string) string {
	var text strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '/':
			text.WriteByte('+')
		case 'A' <= c && c <= 'Z':
			text.WriteByte('^')
			text.WriteByte(c + 'a' - 'A')
		default:
			text.WriteByte(c)
		}
	}
	return filepath.Join(s.dir, "refs", text.String()+".ref")
}

// refName is the inverse of refPath.
func refName(file string) (string, bool) {
	text, ok := strings.CutSuffix(file, ".ref")
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			out.WriteByte('/')
		case c == '^' && i+1 < len(text):
			i++
			out.WriteByte(text[i] - 'a' + 'A')
		default:
			out.WriteByte(c)
		}
	}
	name := out.String()
	return name, ok && CheckRefName(name) == nil
}

// Ref returns the ID that a name refers to, or fs.ErrNotExist.
func (s *Store) Ref(name string) (cas.ID, error) {
	if err := CheckRefName(name); err != nil {
		return cas.ID{}, err
	}
	b, err := readFile(s.refPath(name), 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cas.ID{}, fault.New(fault.NotFound, "ref %q not found", name).From(fs.ErrNotExist)
	case errors.Is(err, ErrFormat), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EIO):
		return cas.ID{}, &RefError{name, err}
	case err != nil:
		return cas.ID{}, err
	}
	return parseRef(name, b)
}

// A RefError reports a ref whose file is damaged.
type RefError struct {
	Name string
	Err  error // why it could not be read; nil if its content is wrong
}

func (e *RefError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the ref %q is damaged: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("the ref %q is damaged", e.Name)
}

func (e *RefError) Unwrap() error { return e.Err }

// Fault returns e with its code.
func (e *RefError) Fault() *fault.Error {
	f := fault.New(fault.Integrity, "%s", e).From(e)
	if !errors.Is(e.Err, errRefFile) {
		f.Because("the object that it named is unknown").Try(fault.Command("rye store refs", e.Name)+" --delete",
			"rye docs store")
	}
	return f
}

// refText returns the content of a ref's file. It repeats the name, so that a swapped file is detected.
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

// Refs returns all refs, sorted by name. It leaves out damaged ones and names them in the error.
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
			errs = append(errs, &RefError{f.Name(), errRefFile})
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

// errRefFile is the cause of a RefError for a file in the directory refs whose name can't be a ref's.
var errRefFile = errors.New(
	"unexpected file name in the store's directory \"refs\": remove the file if it is not yours")

func (s *Store) lockRefs(ctx context.Context) (*os.File, error) {
	return s.acquire(ctx, "refs.lock")
}

// SetRef points name at id if it points at old now; the zero ID is an unset ref. It returns *ConflictError if name
// points elsewhere, and fs.ErrNotExist if the store lacks id.
func (s *Store) SetRef(ctx context.Context, name string, old, id cas.ID) error {
	return s.changeRef(ctx, name, id, func(found cas.ID, err error) error {
		if err == nil && found != old {
			err = &ConflictError{name, found, old}
		}
		return err
	})
}

// PutRef points name at id, even if name is set or damaged.
func (s *Store) PutRef(ctx context.Context, name string, id cas.ID) error {
	return s.changeRef(ctx, name, id, func(_ cas.ID, err error) error {
		if _, damaged := errors.AsType[*RefError](err); damaged {
			return nil
		}
		return err
	})
}

// changeRef points name at id if allow returns nil for the current ID.
func (s *Store) changeRef(ctx context.Context, name string, id cas.ID,
	allow func(found cas.ID, err error) error) error {
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
		// The process that set the ref may have died before it synced.
		return s.files.syncDir(filepath.Dir(path))
	}
	// The lock keeps gc from removing the object between this check and the ref; a later gc sees the ref.
	snap, err := s.load()
	if err != nil {
		return err
	}
	defer snap.release()
	if !s.holds(snap, id) {
		return cas.NotFound(id)
	}
	// The object, and everything it refers to, must reach the disk before the ref does.
	if err := s.settle(snap); err != nil {
		return err
	}
	return s.files.writeFile(path, filepath.Join(s.dir, "tmp", "ref-"+randomName()), []byte(refText(name, id)))
}
