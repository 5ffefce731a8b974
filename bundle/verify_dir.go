package bundle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// A dirLook checks a bundle in a directory.
type dirLook struct {
	fs     fs.FS
	in     *openFolders
	home   string // the manifest's directory, which also holds evidence
	modes  bool   // whether the file system has executable bits
	bundle *Bundle
	places map[cas.Digest]place
	hashes sync.Pool // of *hashing
	intact sync.Map  // the path of an intact file by its digest, for digests of several files
}

// A hashing is the reusable state for hashing a file: allocating it for each of many small files would cost more than
// hashing them.
type hashing struct {
	h   cas.Hasher
	buf []byte
}

// A place is where the bytes of a digest are expected.
type place struct {
	path string
	size int64
	more []string // further files with this digest
}

func (d *dirLook) index(bundle *Bundle) {
	d.bundle = bundle
	if bundle == nil {
		return
	}
	d.places = make(map[cas.Digest]place, len(bundle.Files)+len(bundle.Evidence))
	add := func(at string, digest cas.Digest, size int64) {
		known, many := d.places[digest]
		if many {
			known.more = append(known.more, at)
		} else {
			known = place{path: at, size: size}
		}
		d.places[digest] = known
	}
	for i := range bundle.Evidence {
		e := &bundle.Evidence[i]
		add(path.Join(d.home, e.Name), e.Digest, e.Size)
	}
	for i := range bundle.Files {
		add(bundle.Files[i].Path, bundle.Files[i].Digest, bundle.Files[i].Size)
	}
}

// Get implements cas.Getter with the bundle's files, which it hashes while reading. If several files have the digest,
// it reads an intact one: a damaged copy is a failure of that copy alone.
func (d *dirLook) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	at, ok := d.places[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	name := at.path
	if intact, ok := d.intact.Load(id.Digest); ok {
		name = intact.(string)
	} else {
		for _, other := range at.more {
			known, mode, failure, _ := d.bytes(ctx, name, id.Digest, at.size)
			if known && mode.IsRegular() && failure == nil {
				d.intact.Store(id.Digest, name)
				break
			}
			name = other
		}
	}
	f, err := d.open(name)
	if err != nil {
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: at.size}, f), nil
}

func (d *dirLook) open(name string) (f fs.File, err error) {
	err = d.in.At(name, func(dir fs.FS, base string) (err error) {
		f, err = dir.Open(base)
		return err
	})
	return f, err
}

func (d *dirLook) lstat(name string) (info fs.FileInfo, err error) {
	err = d.in.At(name, func(dir fs.FS, base string) (err error) {
		info, err = fs.Lstat(dir, base)
		return err
	})
	return info, err
}

func (d *dirLook) check(ctx context.Context, file *manifest.File, read bool) *Failure {
	known, found := false, fs.FileMode(0)
	var err error
	if !read || len(d.places[file.Digest].more) > 0 {
		var failure *Failure
		if known, found, failure, err = d.bytes(ctx, file.Path, file.Digest, file.Size); failure != nil {
			return failure
		}
	}
	if !known {
		// Read already, or can't be opened: lstat gives the clearer error.
		info, failed := d.lstat(file.Path)
		if failed != nil {
			err = failed
		} else {
			known, found = true, info.Mode()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Failure{Check: CheckMissing, Expected: file.Digest.String()}
	case known && !found.IsRegular():
		return &Failure{Check: CheckType, Expected: "a file", Found: typeOf(found)}
	case err != nil:
		return &Failure{Check: CheckRead, Err: err}
	}
	mode := cas.File
	if found&0o100 != 0 {
		mode = cas.Exec
	}
	if d.modes && mode != file.Mode {
		return &Failure{Check: CheckMode, Expected: file.Mode.String(), Found: mode.String()}
	}
	return nil
}

func typeOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// bytes hashes a file and returns the mode of the opened file; known is false if none was opened. It reads a file
// that differs to its end for its digest, and once more to see whether only line ends differ.
func (d *dirLook) bytes(ctx context.Context, name string, digest cas.Digest, size int64) (known bool, mode fs.FileMode,
	_ *Failure, _ error) {
	with, ok := d.hashes.Get().(*hashing)
	if !ok {
		with = &hashing{cas.NewHasher(), make([]byte, 64<<10)}
	}
	defer d.hashes.Put(with)
	if size < int64(len(with.buf)) {
		if b, mode, err := d.in.Read(name, with.buf); err == nil && int64(len(b)) == size &&
			cas.Sum(b) == digest {
			return true, mode, nil, nil
		}
	}
	file, err := d.open(name)
	if err != nil {
		return false, 0, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, 0, nil, err
	}
	if mode = info.Mode(); !mode.IsRegular() {
		return true, mode, nil, nil
	}
	with.h.Reset()
	n, err := io.CopyBuffer(with.h, cas.Until(ctx, file), with.buf)
	if err != nil {
		return true, mode, &Failure{Check: CheckRead, Err: err}, nil
	}
	found := with.h.Digest()
	if n == size && found == digest {
		return true, mode, nil, nil
	}
	failure := &Failure{Check: CheckDigest, Expected: digest.String(), Found: found.String()}
	if n != size {
		failure = &Failure{Check: CheckSize, Expected: fmt.Sprint(size), Found: fmt.Sprint(n)}
	}
	failure.OnlyLineEndings = d.otherEnds(ctx, name, digest)
	return true, mode, failure, nil
}

// otherEnds reports whether a file would match the manifest with other line ends.
func (d *dirLook) otherEnds(ctx context.Context, name string, digest cas.Digest) bool {
	file, err := d.open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	ends := newLineEnds()
	_, err = io.Copy(ends, cas.Until(ctx, file))
	return err == nil && ends.is(digest)
}

// lineEnds hashes a file twice, with LF and with CR LF as its line ends.
type lineEnds struct {
	lf, crlf cas.Hasher
	cr       bool // the last byte was CR
	out      [2]*bufio.Writer
}

func newLineEnds() *lineEnds {
	e := &lineEnds{lf: cas.NewHasher(), crlf: cas.NewHasher()}
	e.out[0], e.out[1] = bufio.NewWriter(e.lf), bufio.NewWriter(e.crlf)
	return e
}

func (e *lineEnds) Write(data []byte) (int, error) {
	for _, char := range data {
		if e.cr && char != '\n' {
			e.both("\r", "\r")
		}
		e.cr = char == '\r'
		switch char {
		case '\r':
		case '\n':
			e.both("\n", "\r\n")
		default:
			e.out[0].WriteByte(char)
			e.out[1].WriteByte(char)
		}
	}
	return len(data), nil
}

func (e *lineEnds) both(lf, crlf string) {
	e.out[0].WriteString(lf)
	e.out[1].WriteString(crlf)
}

// is reports whether one of the hashes is d.
func (e *lineEnds) is(d cas.Digest) bool {
	if e.cr {
		e.both("\r", "\r")
		e.cr = false
	}
	e.out[0].Flush()
	e.out[1].Flush()
	return e.lf.Digest() == d || e.crlf.Digest() == d
}

// extra lists the directories of the kinds and the directories outside .ai in which the manifest has files, and of a
// plugin all directories. It doesn't enter directories that no tree contains, and returns them.
func (d *dirLook) extra(ctx context.Context, kinds []*model.Kind, fail func(*Failure)) (never []string, err error) {
	if d.bundle.Plugin != "" { // a plugin has no other files than its own
		err := d.walk(ctx, ".", fail, &never)
		slices.Sort(never)
		return never, err
	}
	roots := map[string]bool{}
	for _, k := range kinds {
		roots[dotAI+"/"+k.Dir] = true
	}
	for i := range d.bundle.Files {
		if p := d.bundle.Files[i].Path; !strings.HasPrefix(p, dotAI+"/") {
			roots[path.Dir(p)] = true
		}
	}
	delete(roots, ".") // the whole project, which isn't only the bundle's
	for root := range roots {
		if !below(roots, root) {
			if err := d.walk(ctx, root, fail, &never); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(never)
	return never, nil
}

// below reports whether a directory is below one of the roots.
func below(roots map[string]bool, dir string) bool {
	for up := path.Dir(dir); up != "."; up = path.Dir(up) {
		if roots[up] {
			return true
		}
	}
	return false
}

// ofManifest reports whether a file of a plugin is the manifest or belongs to it.
func (d *dirLook) ofManifest(file string) bool {
	return file == PluginManifest || file == PluginKeys ||
		slices.ContainsFunc(d.bundle.Evidence, func(e manifest.Evidence) bool {
			return file == path.Join(d.home, e.Name)
		})
}

func (d *dirLook) walk(ctx context.Context, dir string, fail func(*Failure), never *[]string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	names, err := d.in.Names(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			fail(&Failure{Check: CheckRead, Path: dir, Err: err})
		}
		return nil
	}
	for _, name := range names {
		path := path.Join(dir, name)
		if _, listed := d.bundle.File(path); listed || d.bundle.Plugin != "" && d.ofManifest(path) {
			continue
		}
		if portable.Droppings(name) || d.bundle.Plugin != "" && name == ".git" {
			*never = append(*never, path)
			continue
		}
		switch info, failed := fs.Lstat(d.fs, path); {
		case errors.Is(failed, fs.ErrNotExist): // removed meanwhile
		case failed != nil:
			fail(&Failure{Check: CheckRead, Path: path, Err: failed})
		case info.IsDir() && len(path) <= portable.MaxPath:
			err = d.walk(ctx, path, fail, never)
		case info.Mode().IsRegular():
			fail(&Failure{Check: CheckExtra, Path: path, Found: "a file"})
		default:
			fail(&Failure{Check: CheckExtra, Path: path, Found: typeOf(info.Mode())})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
