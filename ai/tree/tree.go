// Package tree computes the digest of the files that belong to a tool of several files.
//
// A signature line of a tool names the tool's own bytes and, after a "+", its tree: the digest of a listing of all
// other files in the tool's working directory, the root of its anchor. So a signature of the tool covers every file
// next to it: rye detects an added, removed, renamed or changed file, and a changed executable bit, before anything
// runs.
//
// # The listing
//
//	rye: "files/2"
//	files:
//	  "lib/__init__.py": {digest: "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", mode:
//
// "file"}
//
//	"lib/run.sh": {digest: "blake3:e87b065684e1003950e1996781ed3cf0a6c88751726df8b9963694f204905b3d", mode: "exec"}
//
// The listing is a canonical document (package canon) that is hashed and not stored. Paths are relative to the
// root, sorted by bytes, and portable as a set. The listing has every regular file below the root except the tool's
// own and those that portable.Droppings reports. Anything else is refused, and all refused files are reported at
// once: symbolic links, devices, sockets and FIFOs, unportable names, and names that differ only in case.
//
// The digest of a file is that of its bytes without signature lines. Otherwise two tools in one directory could
// never both be signed, because the signature of one would change the tree of the other. The digest leaves open
// only the lines in the place and form of package sign, which are comments; a file with misplaced or disordered
// lines is refused. A file that can't have such lines, such as JSON, is hashed unchanged. Anyone can write a line
// of the first format. It is removed only if it is nothing but a comment: after "#", first or after "#!/", without
// text after its fields, ended by LF or CR LF, and not followed by anything that must be first (a byte order mark,
// "#!", a coding line). So upgrading a file's signature doesn't change the tree. Elsewhere such a line is part of
// the hashed bytes.
//
// The digest of the tree is the digest of the listing. Without other files, the digest is zero and no listing is
// made: the tool is a single file.
//
// # How a tree goes through here
//
// Root.Read or List walks the directory (walk.dir), checks each name, and hashes each file with sign.Read
// (walk.read); isComment decides about lines of the first format. Listing.Tree removes the tool's own file and
// calls New, which writes and hashes the listing. Refused files become a RefusedError.
package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

// MaxFiles bounds the files of a tree. A tool with more is a project and belongs in a bundle.
const MaxFiles = 1 << 14

var spec = canon.Spec{
	Format: "files/2",
	Sections: []canon.Section{{Name: "files", Fields: []canon.Field{
		{Name: "digest", Max: 71}, {Name: "mode", Max: 4},
	}}},
	MaxBytes:   32 << 20,
	MaxEntries: MaxFiles,
}

// A File is a file of a tree.
type File struct {
	Path     string     `json:"path"` // relative to the root
	Mode     cas.Mode   `json:"mode"`
	Size     int64      `json:"size"`
	Raw      cas.Digest `json:"digest"` // of its bytes; copies are compared with it
	Stripped cas.Digest `json:"-"`      // of its bytes without signature lines; used in the listing
}

// A Tree has the other files of a tool, sorted by path, and the digest of their listing.
type Tree struct {
	Digest cas.Digest // zero without files
	Files  []File
}

// Digests returns every digest by which a file of the tree can be revoked.
func (t *Tree) Digests() []cas.Digest {
	all := make([]cas.Digest, 0, len(t.Files))
	for i := range t.Files {
		f := &t.Files[i]
		all = append(all, f.Raw)
		if f.Stripped != f.Raw {
			all = append(all, f.Stripped)
		}
	}
	return all
}

// New returns the tree of files, which it sorts. It fails if the files can't be listed.
func New(files []File) (*Tree, error) {
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if err := portable.CheckSet(paths(files)); err != nil {
		return nil, err
	}
	tree := &Tree{Files: files}
	if len(files) == 0 {
		return tree, nil
	}
	encoder := canon.NewEncoderBytes(nil, &spec)
	var text [71]byte
	for i := range files {
		f := &files[i]
		if f.Mode != cas.File && f.Mode != cas.Exec {
			return nil, fmt.Errorf("%+q is neither a file nor executable", f.Path)
		}
		encoder.Begin(0, f.Path)
		encoder.StrBytes(0, f.Stripped.Append(text[:0]))
		encoder.Str(1, f.Mode.String())
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	tree.Digest = cas.Sum(encoder.Bytes())
	return tree, nil
}

func paths(files []File) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range files {
			if !yield(files[i].Path) {
				return
			}
		}
	}
}

var (
	errLink    = errors.New("is a symbolic link, which a tree can't contain")
	errSpecial = errors.New("is neither a file nor a directory")
	errMany    = fmt.Errorf("has more than %d files, too many for one tool", MaxFiles)
)

// A FileError is the reason why a file can't be part of a tree. Path is relative to the root.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("%+q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// maxNamed bounds the files that a RefusedError names.
const maxNamed = 100

// A RefusedError names the files that a tree can't contain, sorted by path, at most maxNamed of them.
type RefusedError struct{ Files []*FileError }

func (e *RefusedError) Error() string {
	if more := len(e.Files) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more)", e.Files[0], more)
	}
	return e.Files[0].Error()
}

// Fault returns an error that lists the files.
func (e *RefusedError) Fault() *fault.Error {
	f := fault.New(fault.Validation, "a tool's directory contains files that can't be part of the tool").On("reason",
		"validation-failed").From(e)
	for _, file := range e.Files {
		f.Because(file.Error())
	}
	return f
}

// Unwrap returns the errors of the files.
func (e *RefusedError) Unwrap() []error {
	all := make([]error, len(e.Files))
	for i, f := range e.Files {
		all[i] = f
	}
	return all
}

// A Root is the directory from which a tool works.
type Root struct {
	FS     fs.FS
	Dir    string // in FS; "." for its root
	Below  string // only files below it, relative to Dir, are listed; "" for all. It may be missing
	Except string // the tool's own file, relative to Dir
	// Style returns the comment style of a file by its name: that of the tool's kind, without rules for the first
	// format.
	Style func(name string) sign.Style
	// Exec reports whether a file is executable. Nil: its mode decides.
	Exec func(name string, info fs.FileInfo) bool
}

// Read reads the files below a root, each once. A later user of a file must compare it with File.Raw. The error is
// one of the context, a *RefusedError, or one of the directory.
func (r Root) Read(ctx context.Context) (*Tree, error) {
	l, err := r.list(ctx, MaxFiles)
	if err != nil {
		return nil, err
	}
	return l.Tree("")
}

// A Listing has all files below a root, read once for the many tools that work from it.
type Listing struct {
	dir     string
	files   []File
	refused []*FileError
}

// List reads all files below a root and ignores Except. The error is one of the context or of the directory.
func (r Root) List(ctx context.Context) (*Listing, error) {
	r.Except = ""
	return r.list(ctx, MaxFiles+1) // one more, because a tree excludes the tool's own file
}

// Len returns the number of files.
func (l *Listing) Len() int { return len(l.files) }

// Tree returns the tree of the tool with this file, as Read does. It is safe for concurrent use.
func (l *Listing) Tree(except string) (*Tree, error) {
	refused := slices.DeleteFunc(slices.Clone(l.refused), func(f *FileError) bool { return f.Path == except })
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b *FileError) int { return cmp.Compare(a.Path, b.Path) })
		return nil, &RefusedError{refused[:min(maxNamed, len(refused))]}
	}
	files := slices.DeleteFunc(slices.Clone(l.files), func(f File) bool { return f.Path == except })
	if len(files) > MaxFiles {
		return nil, &RefusedError{[]*FileError{{l.dir, errMany}}}
	}
	t, err := New(files)
	if pe, ok := errors.AsType[*portable.Error](err); ok {
		return nil, &RefusedError{[]*FileError{{pe.Path, err}}}
	}
	return t, err
}

func (r Root) list(ctx context.Context, most int) (*Listing, error) {
	w := walk{Root: r, ctx: ctx, most: most}
	if err := w.dir(r.Below); err != nil && (r.Below == "" || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	return &Listing{r.Dir, w.files, w.refused}, nil
}

type walk struct {
	Root
	ctx     context.Context
	most    int
	head    []byte
	files   []File
	refused []*FileError
}

func (w *walk) refuse(name string, err error) {
	if len(w.refused) <= maxNamed {
		w.refused = append(w.refused, &FileError{name, err})
	}
}

// dir reads a directory below the root; "" is the root itself. Only an unreadable first directory is an error.
func (w *walk) dir(dir string) error {
	entries, err := fs.ReadDir(w.FS, path.Join(w.Dir, dir))
	if err != nil {
		if dir == w.Below {
			return err
		}
		w.refuse(dir, err)
		return nil
	}
	for _, entry := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, entry.Name())
		if name == w.Except || portable.Droppings(entry.Name()) {
			continue
		}
		// Check before opening anything by the name. This also bounds the depth of directories.
		if err := portable.Check(name); err != nil {
			w.refuse(name, err)
			continue
		}
		switch {
		case entry.IsDir():
			err = w.dir(name)
		case entry.Type()&fs.ModeSymlink != 0:
			w.refuse(name, errLink)
		case !entry.Type().IsRegular():
			w.refuse(name, errSpecial)
		default:
			err = w.file(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) file(name string) error {
	if len(w.files) == w.most {
		return &RefusedError{[]*FileError{{w.Dir, errMany}}}
	}
	f, err := w.read(name)
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case err != nil:
		w.refuse(name, err)
		return nil
	}
	w.files = append(w.files, f)
	return nil
}

func (w *walk) read(name string) (File, error) {
	file, err := w.FS.Open(path.Join(w.Dir, name))
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, errSpecial
	}
	h := &headed{File: file, ctx: w.ctx, head: w.head[:0]}
	signed, err := sign.Read(h, w.style(name))
	w.head = h.head // reused for the next file
	if err != nil {
		return File{}, err
	}
	f := File{Path: name, Mode: cas.File, Size: info.Size(), Raw: signed.Raw, Stripped: signed.Stripped}
	if signed.Format == sign.V1 && !isComment(h.head) {
		f.Stripped = f.Raw
	}
	if w.executable(name, info) {
		f.Mode = cas.Exec
	}
	return f, nil
}

func (w *walk) style(name string) sign.Style {
	s := sign.StyleOf(name)
	if w.Style != nil {
		s = w.Style(name)
	}
	if s == sign.Hash {
		s |= sign.V1Tool
	}
	return s
}

func (w *walk) executable(name string, info fs.FileInfo) bool {
	if w.Exec != nil {
		return w.Exec(path.Join(w.Dir, name), info)
	}
	return info.Mode().Perm()&0o100 != 0
}
