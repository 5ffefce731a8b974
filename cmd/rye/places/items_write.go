package places

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/manifest/sign"
)

// A Confined directory is written in and below, and nowhere else: no link in it is followed, whatever it leads to,
// nor is one put in the place of a directory meanwhile.
type Confined struct {
	Root *os.Root
	dir  string
	mode fs.FileMode // of directories that are made
}

// Confine opens a directory to write in.
func Confine(dir string, mode fs.FileMode) (*Confined, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Confined{root, dir, mode}, nil
}

func (d *Confined) Close() { d.Root.Close() }

// Where is a name below the directory as people find it.
func (d *Confined) Where(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// Folder opens a directory below, which the caller closes, and makes it where it isn't there, if it may.
func (d *Confined) Folder(name string, mayMake bool) (*os.Root, error) {
	r, err := d.Root.OpenRoot(".")
	if err != nil || name == "." {
		return r, err
	}
	at := ""
	for segment := range strings.SplitSeq(name, "/") {
		at = path.Join(at, segment)
		next, err := d.enter(r, segment, at, mayMake)
		r.Close()
		if err != nil {
			return nil, err
		}
		r = next
	}
	return r, nil
}

// enter opens a directory. One that others take away and make again meanwhile is looked at anew.
func (d *Confined) enter(r *os.Root, segment, at string, mayMake bool) (next *os.Root, err error) {
	for range 100 {
		if next, err = d.enterNow(r, segment, at, mayMake); err != errReplaced {
			return next, err
		}
	}
	return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was replaced meanwhile", d.Where(at))}
}

var errReplaced = errors.New("it was replaced meanwhile")

func (d *Confined) enterNow(r *os.Root, segment, at string, mayMake bool) (*os.Root, error) {
	if mayMake {
		if err := r.Mkdir(segment, d.mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.About(at, err)
		}
	}
	before, err := r.Lstat(segment)
	if err != nil {
		return nil, d.About(at, err)
	}
	if !before.IsDir() {
		return nil, d.notDir(at, before)
	}
	next, err := r.OpenRoot(segment)
	if err != nil {
		return nil, d.About(at, err)
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errReplaced
	}
	return next, nil
}

// notDir says that something else stands where a directory is needed.
func (d *Confined) notDir(at string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a symbolic link, and nothing is written through one", d.Where(at)),
			Details: map[string]any{"reason": "link", "path": d.Where(at)}, Hint: []string{"ls -l " + fault.Quote(d.Where(at))}}
	}
	return &fs.PathError{Op: "open", Path: d.Where(at), Err: classify.NotDirectory}
}

// About makes an error one about a name as people find it.
func (d *Confined) About(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: PlainOp(pe.Op), Path: d.Where(name), Err: pe.Err}
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: PlainOp(le.Op), Path: d.Where(name), Err: le.Err}
	}
	return err
}

// PlainOp names what was done to a file by a word that people know: os.Root names the call of the system.
func PlainOp(op string) string {
	switch op {
	case "openat", "mkdirat", "renameat", "linkat", "statat", "lstatat", "chmodat":
		return strings.TrimSuffix(op, "at")
	case "unlinkat", "removeat":
		return "remove"
	}
	return op
}

// Read reads a regular file, nil if there is none. A link is refused: what would be written is the link.
func (d *Confined) Read(name string, most int64) ([]byte, error) {
	r, err := d.Folder(path.Dir(name), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fi, err := r.Lstat(path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.About(name, err)
	case !fi.Mode().IsRegular():
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is no regular file", d.Where(name)),
			Details: map[string]any{"reason": "special", "path": d.Where(name)}}
	case fi.Size() > most:
		return nil, &fault.Error{Code: fault.Limit, Text: fmt.Sprintf("%q has more than %d bytes", d.Where(name), most)}
	}
	b, err := r.ReadFile(path.Base(name))
	return b, d.About(name, err)
}

// Write makes a file, or replaces it, whole and durable, as writeFile does. With exclusive a file that is there is
// fs.ErrExist.
func (d *Confined) Write(name string, mode fs.FileMode, exclusive bool, b []byte) error {
	dir, base, part := path.Dir(name), path.Base(name), Unfinished+rand.Text()
	r, f, err := d.create(dir, part)
	// Whoever removes what else was in the directory removes that as well, as long as it is empty.
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 100; tries++ {
		r, f, err = d.create(dir, part)
	}
	if err != nil {
		return d.About(name, err)
	}
	defer r.Close()
	defer r.Remove(part)
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return d.About(name, err)
	}
	if exclusive {
		err = r.Link(part, base) // which never replaces
	} else {
		err = r.Rename(part, base)
	}
	if err != nil {
		return d.About(name, err)
	}
	if err := osfile.SyncDirectory(d.Where(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // it was there, and somebody has removed it since
}

// create makes a file in a directory, which it makes and opens.
func (d *Confined) create(dir, name string) (*os.Root, *os.File, error) {
	r, err := d.Folder(dir, true)
	if err != nil {
		return nil, nil, err
	}
	f, err := r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		r.Close()
	}
	return r, f, err
}

// Remove removes a file, and the directories above it that are empty then, but for the first, which is a kind's. What
// somebody else has removed meanwhile is removed.
func (d *Confined) Remove(name string) error {
	dir := path.Dir(name)
	r, err := d.Folder(dir, false)
	if err == nil {
		err = d.About(name, r.Remove(path.Base(name)))
		r.Close()
	}
	if err == nil {
		err = osfile.SyncDirectory(d.Where(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for ; strings.Contains(dir, "/"); dir = path.Dir(dir) {
		above, err := d.Folder(path.Dir(dir), false)
		if err != nil {
			return nil
		}
		err = above.Remove(path.Base(dir))
		above.Close()
		if err != nil {
			return nil // there is something else in it
		}
	}
	return nil
}

// OpenAI opens the directory .ai of a space to write in, and makes it if it isn't there. That of a project must be in
// the project: what somebody else has put there as a link would decide where this user writes.
func OpenAI(dir string, level ai.Level) (*Confined, error) {
	mode := fs.FileMode(0o777)
	if level == ai.User {
		mode = 0o700
	} else if err := ai.Inside(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, err
	}
	return Confine(dir, mode)
}

// LeadsOut reports whether a file or directory is a link to somewhere that isn't below where it stands.
func LeadsOut(name string) bool { return ai.Inside(name) != nil }

// FileMode is the mode that an item or a file of a tree is written with: of what a mode says, execution counts.
func FileMode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

// Draft is an item as it would be with these bytes.
func Draft(k *model.Kind, ref model.Ref, s *ai.Space, p string, b []byte) *ai.Item {
	it := &ai.Item{File: ai.File{Ref: ref, Kind: k, Space: s, Path: p}, Bytes: b, Raw: cas.Sum(b), Model: k.Read(ref, p, b)}
	if it.Signed, it.Broken = sign.ReadBytes(b, k.Style(p)); it.Broken == nil {
		it.Stripped = it.Signed.Stripped
	}
	return it
}

// TreeFile reads a file of an item's tree, which must be what was hashed.
func TreeFile(s *ai.Space, name string, want cas.Digest) ([]byte, error) {
	b, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return nil, err
	}
	if cas.Sum(b) != want {
		return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was changed while it was read", name)}
	}
	return b, nil
}

// SameBytes reports whether a file is there with these bytes; another file there is an error.
func SameBytes(d *Confined, name string, b []byte) (bool, error) {
	old, err := d.Read(name, int64(len(b)))
	f, isFault := errors.AsType[*fault.Error](err)
	switch {
	case err != nil && (!isFault || f.Code != fault.Limit):
		return false, err
	case err == nil && old == nil:
		return false, nil
	case err == nil && bytes.Equal(old, b):
		return true, nil
	}
	return false, &fault.Error{Code: fault.Validation, Err: fs.ErrExist, Text: fmt.Sprintf("%q is there already, with other bytes", d.Where(name)),
		Details: map[string]any{"reason": "exists", "file": d.Where(name)}}
}
