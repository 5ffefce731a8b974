package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// MaxWalk limits the entries that Walk visits and the objects that Copy looks at. Trees share subtrees, so a few
// kilobytes can describe billions of entries.
const MaxWalk = 1 << 22

// ReadTree reads the tree d from src, compares its bytes with d, and returns its entries.
func ReadTree(ctx context.Context, src Getter, d Digest) ([]Entry, error) {
	o, err := src.Get(ctx, ID{TreeKind, d})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return TreeIn(o, ID{TreeKind, d}, nil)
}

// largeTree is the size in bytes above which trees are read one at a time, to bound memory.
const largeTree = 1 << 20

var readingLarge sync.Mutex

// buffers holds memory for objects that are read as a whole.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// TreeIn returns the entries of an open tree, and passes its bytes to see, which may be nil. It compares their
// digest with id, the requested tree, and does not trust the object's own ID.
func TreeIn(o Object, id ID, see func(b []byte) error) ([]Entry, error) {
	if o.Size > MaxTreeBytes {
		return nil, &DamagedError{ID: id, Err: errTooLarge}
	}
	if o.Size > largeTree {
		readingLarge.Lock()
		defer readingLarge.Unlock()
	}
	buf := buffers.Get().(*[]byte)
	defer giveBuffer(buf)
	data, err := readWhole(*buf, o, id, o.Size)
	if err != nil {
		return nil, err
	}
	*buf = data
	if found := Sum(data); found != id.Digest {
		return nil, &DamagedError{ID: id, Found: found}
	}
	out, err := ParseTree(nil, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	if see != nil {
		err = see(data)
	}
	return out, err
}

func giveBuffer(b *[]byte) {
	if cap(*b) <= largeTree {
		buffers.Put(b)
	}
}

// readWhole reads o, expecting size bytes, into the memory of buf. It doesn't compare digests.
func readWhole(buf []byte, o Object, id ID, size int64) ([]byte, error) {
	if size < 0 {
		return nil, &DamagedError{ID: id, Err: errSize}
	}
	if int64(cap(buf)) < size+1 {
		buf = make([]byte, size+1)
	}
	// One byte more than expected, to detect a longer object.
	n, err := io.ReadFull(o, buf[:size+1])
	switch {
	case err == nil:
		return nil, &DamagedError{ID: id, Err: ErrTooLong}
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	case int64(n) < size:
		return nil, &DamagedError{ID: id, Err: io.ErrUnexpectedEOF}
	}
	return buf[:n], nil
}

// fetchers is how many objects are read at a time from a store that is not a Visitor.
const fetchers = 8

// Fetch calls visit for each of ids from several goroutines, in an order that suits src, as a Visitor does.
func Fetch(ctx context.Context, src Getter, ids []ID, visit func(i int, o Object) error) error {
	if len(ids) == 0 {
		return nil
	}
	if v, ok := src.(Visitor); ok && len(ids) > 1 {
		return v.Visit(ctx, ids, visit)
	}
	return Parallel(ctx, fetchers, len(ids), func(ctx context.Context, i int) error {
		o, err := src.Get(ctx, ids[i])
		if err != nil {
			return err
		}
		defer o.Close()
		return visit(i, o)
	})
}

// absent returns the first of ids that src lacks. ok is false if it has all of them.
func absent(ctx context.Context, src Getter, ids []ID) (int, bool) {
	for i, id := range ids {
		o, err := src.Get(ctx, id)
		if err == nil {
			o.Close()
		} else if errors.Is(err, fs.ErrNotExist) {
			return i, true
		}
	}
	return 0, false
}

// Walk calls visit for every entry below the tree root in the order of paths, compared by segments: a directory comes
// directly before its content. It reads trees ahead and verifies them; it doesn't open files. If visit returns
// fs.SkipDir for a directory, Walk skips its content; any other error ends the walk and is returned.
//
// A tree that src lacks is an fs.ErrNotExist. A path longer than portable.MaxPath and more than MaxWalk entries are
// errors, so time and memory are bounded whatever src holds.
func Walk(ctx context.Context, src Getter, root ID, visit func(path string, e Entry) error) error {
	if root.Kind != TreeKind {
		return fault.New(fault.Validation, "%s is not a tree", root)
	}
	w := walker{ctx: ctx, src: src, root: root, visit: visit, left: MaxWalk}
	return w.walk()
}

func (w *walker) walk() error {
	entries, err := ReadTree(w.ctx, w.src, w.root.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(w.root, "", ID{}, err)
	}
	if err != nil {
		return err
	}
	return w.tree(w.root, "", entries)
}

type walker struct {
	ctx   context.Context
	src   Getter
	root  ID
	visit func(path string, e Entry) error
	left  int // entries that the remaining trees may have

	mu   sync.Mutex
	held int // entries that were read ahead and are not yet visited
}

const (
	aheadTrees   = 64      // most trees read ahead together
	aheadEntries = 1 << 17 // most entries held
)

// tree visits the entries of the tree at path.
func (w *walker) tree(id ID, path string, entries []Entry) error {
	if w.left -= len(entries); w.left < 0 {
		return TooLarge(w.root)
	}
	var ahead [][]Entry // of the next directories
	for i := range entries {
		entry := &entries[i]
		child := join(path, entry.Name)
		if len(child) > portable.MaxPath {
			return portable.Check(child)
		}
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		err := w.visit(child, *entry)
		skip := err == fs.SkipDir && entry.Mode == Dir
		if err != nil && !skip {
			return err
		}
		if entry.Mode != Dir {
			continue
		}
		if len(ahead) == 0 && !skip {
			ahead = w.readAhead(entries[i:])
		}
		var below []Entry
		if len(ahead) > 0 {
			below, ahead = ahead[0], ahead[1:]
			w.hold(-len(below))
		}
		if skip {
			continue
		}
		if err := w.dir(id, child, entry, below); err != nil {
			return err
		}
	}
	return nil
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// dir visits the content of a directory. entries is nil unless readAhead has read them.
func (w *walker) dir(parent ID, path string, entry *Entry, entries []Entry) error {
	if entries == nil {
		var err error
		entries, err = ReadTree(w.ctx, w.src, entry.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			return missing(entry.ID(), path, parent, err)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return w.tree(entry.ID(), path, entries)
}

// hold adds n to the number of held entries, unless that exceeds the limit.
func (w *walker) hold(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held+n > aheadEntries {
		return false
	}
	w.held += n
	return true
}

// readAhead reads the trees of the first directories of entries. It returns nil for a tree that it could not read:
// dir reads that tree again and reports the error.
func (w *walker) readAhead(entries []Entry) [][]Entry {
	ids := make([]ID, 0, aheadTrees)
	for i := range entries {
		if entries[i].Mode == Dir {
			if ids = append(ids, entries[i].ID()); len(ids) == cap(ids) {
				break
			}
		}
	}
	ahead := make([][]Entry, len(ids))
	if len(ids) == 1 || w.held > aheadEntries/2 {
		return ahead
	}
	// Each call sets its own element of ahead. An error ends the fetch, and dir meets it again.
	_ = Fetch(w.ctx, w.src, ids, func(i int, o Object) error {
		below, err := TreeIn(o, ids[i], nil)
		if err == nil && w.hold(len(below)) {
			ahead[i] = below
		}
		return err
	})
	return ahead
}
