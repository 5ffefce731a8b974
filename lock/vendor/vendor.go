package vendor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// A Vendor is a directory of objects. It implements cas.Getter, cas.Visitor and bundle.Refs. It is safe for many
// goroutines.
type Vendor struct {
	files   *files
	packs   map[string]*found // by the leading digits of its objects
	longest int               // the most digits of a pack
	large   map[cas.ID]string
	lines   atomic.Int64 // in all packs read so far
	spare   atomic.Int32 // how many more packs may be kept open

	mu     sync.Mutex
	merged map[cas.Digest][]byte // blobs that no file has: unions of several sets of signatures
}

// found is a pack, with its index once it was read.
type found struct {
	name string

	mu    sync.Mutex
	index *index   // nil until the pack is read
	file  *os.File // the open file of index, or nil
}

// maxOpen is how many packs are kept open. Otherwise each object would cost another open.
const maxOpen = 256

// An index locates the lines of a file. It is immutable.
type index struct {
	info    fs.FileInfo // of the file that was read
	objects map[cas.ID]place
	signed  map[cas.Digest][]cas.Digest // blobs with the signatures of a document
	lines   int64
}

type place struct{ at, length, no int }

// Open opens a directory that Write wrote, even if git has changed it since. It reads no file. A missing directory is
// fs.ErrNotExist. The caller closes it.
func Open(dir string) (*Vendor, error) {
	f, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	v, err := newVendor(f)
	if err != nil {
		return nil, errors.Join(err, f.Root.Close())
	}
	v.spare.Store(maxOpen)
	return v, nil
}

// newVendor returns a Vendor that keeps no pack open.
func newVendor(f *files) (*Vendor, error) {
	l, err := f.list()
	if err != nil {
		return nil, err
	}
	v := &Vendor{files: f, packs: make(map[string]*found, len(l.packs)), large: make(map[cas.ID]string, len(l.large))}
	for _, name := range l.packs {
		prefix, _ := packPrefix(name)
		v.packs[prefix] = &found{name: name}
		v.longest = max(v.longest, len(prefix))
	}
	for _, name := range l.large {
		id, _ := parseLarge(name)
		v.large[id] = name
	}
	return v, nil
}

// Close closes the directory. Open objects stay open.
func (v *Vendor) Close() error {
	for _, p := range v.packs {
		p.mu.Lock()
		v.drop(p)
		p.mu.Unlock()
	}
	return v.files.Root.Close()
}

// Get implements cas.Getter. It returns an *Error if the file that should have the object is damaged.
func (v *Vendor) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if ctx.Err() != nil {
		return cas.Object{}, context.Cause(ctx)
	}
	if name, ok := v.large[id]; ok {
		r, info, err := v.files.open(name)
		if err != nil {
			return cas.Object{}, err
		}
		return cas.Verify(cas.Info{ID: id, Size: info.Size()}, r), nil
	}
	data, err := v.small(id)
	if errors.Is(err, errAbsent) && id.Kind == cas.Blob {
		v.mu.Lock()
		merged, ok := v.merged[id.Digest]
		v.mu.Unlock()
		if ok {
			data, err = merged, nil
		}
	}
	if err != nil {
		return cas.Object{}, err
	}
	return cas.Object{Info: cas.Info{ID: id, Size: int64(len(data))},
		ReadCloser: io.NopCloser(bytes.NewReader(data))}, nil
}

// errAbsent means that no file has an object.
var errAbsent = fmt.Errorf("in no file of the vendor directory: %w", fs.ErrNotExist)

// small returns the bytes of an object in a pack.
func (v *Vendor) small(id cas.ID) ([]byte, error) {
	if b := v.kept(id); b != nil {
		return b, nil
	}
	var b []byte
	err := fmt.Errorf("%s: %w", id, errAbsent)
	bad := v.search(id.Digest, func(name string, x *index, r *os.File) (stop bool, bad error) {
		at, ok := x.objects[id]
		if !ok {
			return false, nil
		}
		b, err = read(name, r, id, at)
		return true, nil
	})
	return b, cmp.Or(bad, err)
}

// kept returns the bytes of an object from a pack that is kept open, or nil if that fails. Replacing the file
// meanwhile is harmless: the bytes are hashed.
func (v *Vendor) kept(id cas.ID) []byte {
	for p := range v.packsOf(id.Digest) {
		p.mu.Lock()
		x, r := p.index, p.file
		p.mu.Unlock()
		if r == nil {
			continue
		}
		if at, ok := x.objects[id]; ok {
			b, _ := read(p.name, r, id, at)
			return b
		}
	}
	return nil
}

// packsOf yields the packs that may contain a digest, from the largest to the smallest.
func (v *Vendor) packsOf(d cas.Digest) iter.Seq[*found] {
	return func(yield func(*found) bool) {
		text := hex(d)
		for n := range v.longest + 1 {
			if p := v.packs[text[:n]]; p != nil && !yield(p) {
				return
			}
		}
	}
}

// search calls look with the packs that may contain a digest until look returns stop.
func (v *Vendor) search(d cas.Digest, look func(name string, x *index, r *os.File) (stop bool, err error)) error {
	for p := range v.packsOf(d) {
		if stop, err := v.look(p, look); stop || err != nil {
			return err
		}
	}
	return nil
}

// look calls look with a pack. It reads the pack if it is new or was replaced.
func (v *Vendor) look(found *found, look func(string, *index, *os.File) (bool, error)) (bool, error) {
	found.mu.Lock()
	defer found.mu.Unlock()
	r, info, err := v.files.open(found.name)
	if err != nil {
		return false, err
	}
	if err := v.refresh(found, r, info); err != nil {
		return false, errors.Join(err, r.Close())
	}
	if found.file != r {
		defer r.Close()
	}
	return look(found.name, found.index, r)
}

// refresh replaces a pack's index by that of file, and keeps file open if the limit allows it.
func (v *Vendor) refresh(found *found, file *os.File, info fs.FileInfo) error {
	index := found.index
	if index != nil && os.SameFile(index.info, info) && index.info.Size() == info.Size() &&
		index.info.ModTime().Equal(info.ModTime()) {
		return nil
	}
	v.drop(found)
	if index != nil {
		v.lines.Add(-index.lines)
		found.index = nil
	}
	index, err := v.read(found.name, file, info)
	if err != nil {
		return err
	}
	found.index = index
	if v.spare.Add(-1) >= 0 {
		found.file = file
	} else {
		v.spare.Add(1)
	}
	return nil
}

// drop closes a pack that is kept open.
func (v *Vendor) drop(p *found) {
	if p.file != nil {
		p.file.Close()
		p.file = nil
		v.spare.Add(1)
	}
}

// read builds the index of a pack.
func (v *Vendor) read(name string, r *os.File, info fs.FileInfo) (*index, error) {
	b, err := readPack(name, r, info, nil)
	if err != nil {
		return nil, err
	}
	index := &index{info: info, objects: make(map[cas.ID]place, len(b)/(4*lineWeight))}
	for line, err := range lines(name, b) {
		if err == nil && v.lines.Add(1) > maxLines {
			err = &Error{name, line.no, 0, errMany}
		}
		if err != nil {
			v.lines.Add(-index.lines)
			return nil, err
		}
		index.lines++
		if line.id.Kind != signed {
			if _, twice := index.objects[line.id]; !twice {
				index.objects[line.id] = place{line.at, len(line.raw), line.no}
			}
			continue
		}
		if index.signed == nil {
			index.signed = make(map[cas.Digest][]cas.Digest)
		}
		// More than maxSets are an error when they are requested, so the rest can be dropped.
		if blobs := index.signed[line.id.Digest]; len(blobs) <= maxSets && !slices.Contains(blobs, line.blob) {
			index.signed[line.id.Digest] = append(blobs, line.blob)
		}
	}
	return index, nil
}

// buffers provides memory for lines and packs.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// read returns the object of a line. It hashes the bytes: a caller with another source must know before half of them
// are read.
func read(name string, r io.ReaderAt, id cas.ID, at place) ([]byte, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = slices.Grow((*buf)[:0], at.length)
	l := line{raw: (*buf)[:at.length], no: at.no}
	if _, err := r.ReadAt(l.raw, int64(at.at)); err != nil {
		return nil, &Error{name, at.no, 0, err}
	}
	if err := l.parse(); err != nil {
		return nil, &Error{name, at.no, 0, err}
	}
	b, err := l.object(name)
	if err != nil {
		return nil, err
	}
	if found := cas.Sum(b); found != id.Digest {
		return nil, &Error{name, at.no, 0, &cas.DamagedError{ID: id, Found: found}}
	}
	return b, nil
}

// Ref implements bundle.Refs: "signatures/HEX" is the blob with all signature lines of a document, and "bundles/HEX"
// the document itself.
func (v *Vendor) Ref(name string) (cas.ID, error) {
	what, text, _ := strings.Cut(name, "/")
	d, rest, ok := cutDigest([]byte(text))
	if !ok || len(rest) > 0 || what != "signatures" && what != "bundles" {
		return cas.ID{}, fmt.Errorf("ref %+q: %w", name, fs.ErrNotExist)
	}
	if what == "signatures" {
		return v.signatures(d)
	}
	id := cas.ID{Kind: cas.Document, Digest: d}
	if _, ok := v.large[id]; ok {
		return id, nil
	}
	_, err := v.small(id)
	if err != nil {
		return cas.ID{}, err
	}
	return id, nil
}

// signatures returns the blob with the signature lines of a document, which may be in several.
func (v *Vendor) signatures(digest cas.Digest) (cas.ID, error) {
	var blobs []cas.Digest
	err := v.search(digest, func(_ string, x *index, _ *os.File) (bool, error) {
		blobs = append(blobs, x.signed[digest]...)
		if len(blobs) > maxSets {
			return false, fmt.Errorf("more than %d sets of signatures of %s", maxSets, digest)
		}
		return false, nil
	})
	if err != nil {
		return cas.ID{}, err
	}
	if len(blobs) == 0 {
		return cas.ID{}, fmt.Errorf("signatures of %s: %w", digest, errAbsent)
	}
	one := cas.ID{Kind: cas.Blob, Digest: blobs[0]}
	if len(blobs) == 1 {
		return one, nil
	}
	var sets []manifest.Signatures
	for _, blob := range blobs {
		b, err := v.small(cas.ID{Kind: cas.Blob, Digest: blob})
		if err != nil {
			return cas.ID{}, err
		}
		if cas.Sum(b) != blob {
			return cas.ID{}, &cas.DamagedError{ID: cas.ID{Kind: cas.Blob, Digest: blob}, Found: cas.Sum(b)}
		}
		set, err := manifest.ParseSignatures(b, digest)
		if err != nil {
			return cas.ID{}, err
		}
		sets = append(sets, set)
	}
	doc := manifest.Document{ID: digest}
	if err := doc.Merge(nil, sets...); err != nil {
		return cas.ID{}, err
	}
	b := doc.Signatures.Append(nil)
	one.Digest = cas.Sum(b)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.merged == nil {
		v.merged = make(map[cas.Digest][]byte)
	}
	v.merged[one.Digest] = b
	return one, nil
}

// maxSets is how many sets of signatures of one document are merged.
const maxSets = 64
