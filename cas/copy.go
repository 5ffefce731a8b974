package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
)

// CopyStats counts the objects of a Copy.
type CopyStats struct {
	Objects, Bytes int64 // put into dst
	Present        int64 // objects that dst had already
}

// A Destination is a store that Copy copies to.
type Destination interface {
	Getter
	Batcher
}

// Copy copies the objects that dst lacks and that can be reached from the roots. An object that src lacks too is an
// fs.ErrNotExist.
//
// dst may have a tree without the objects below it, so Copy looks for all of them. It doesn't trust src: it hashes all
// bytes and checks trees, the length of paths and the sizes of files. All objects become visible at once, at the end.
func Copy(ctx context.Context, dst Destination, src Getter, roots ...ID) (CopyStats, error) {
	batch, err := dst.Batch(ctx)
	if err != nil {
		return CopyStats{}, err
	}
	defer batch.Close()
	c := copier{src: src, dst: dst, batch: batch, graph: newGraph()}
	if err = c.run(ctx, roots); err == nil {
		err = batch.Commit(ctx)
	}
	if err != nil {
		return CopyStats{}, err
	}
	return CopyStats{c.objects.Load(), c.bytes.Load(), c.present}, nil
}

// A copier is one Copy.
type copier struct {
	src   Getter
	dst   Getter
	batch Batch
	graph

	objects, bytes atomic.Int64
	present        int64
}

const (
	treesAtOnce = 1 << 10   // looked up and read together
	leafsAtOnce = 1 << 16   // looked up and copied together
	copySmall   = 256 << 10 // most bytes of an object that is read as a whole
)

func (c *copier) run(ctx context.Context, roots []ID) error {
	for _, id := range roots {
		var err error
		if id.Kind == TreeKind {
			_, err = c.addNode(id.Digest, noParent, "")
		} else {
			err = c.addLeaf(id, noParent, anySize)
		}
		if err != nil {
			return err
		}
	}
	for from := 0; from < len(c.nodes); {
		to := min(len(c.nodes), from+treesAtOnce)
		if err := c.readTrees(ctx, int32(from), int32(to)); err != nil {
			return err
		}
		from = to
	}
	if err := c.checkPaths(); err != nil {
		return err
	}
	for some := range slices.Chunk(c.leafs, leafsAtOnce) {
		if err := c.copyLeafs(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// readTrees reads the trees of some nodes, puts those that dst lacks, and adds their entries to the graph.
func (c *copier) readTrees(ctx context.Context, from, to int32) error {
	ids := make([]ID, to-from)
	for i := range ids {
		ids[i] = ID{TreeKind, c.nodes[from+int32(i)].digest}
	}
	lacks, err := c.lacks(ctx, ids)
	if err != nil {
		return err
	}
	trees, done := make([][]Entry, len(ids)), make([]bool, len(ids))
	present, presentIDs := pick(ids, func(i int) bool { return !lacks[i] })
	// Errors are ignored: a tree that dst can't return intact is copied from src again.
	_ = Fetch(ctx, c.dst, presentIDs, func(n int, o Object) error {
		i := present[n]
		entries, err := TreeIn(o, ids[i], nil)
		trees[i], done[i] = entries, err == nil
		return nil
	})
	rest, restIDs := pick(ids, func(i int) bool { return !done[i] })
	c.present += int64(len(ids) - len(rest))
	err = c.fetch(ctx, restIDs, func(n int, o Object) (err error) {
		i := rest[n]
		trees[i], err = TreeIn(o, ids[i], func(b []byte) error { return c.putBytes(ctx, ids[i], b) })
		return err
	})
	if err != nil {
		return c.explain(ctx, err, func(n int) (ID, int32) { return restIDs[n], c.nodes[from+int32(rest[n])].parent })
	}
	for i, entries := range trees {
		if err := c.addTree(from+int32(i), entries); err != nil {
			return err
		}
	}
	return nil
}

// copyLeafs copies those of leafs that dst lacks.
func (c *copier) copyLeafs(ctx context.Context, leafs []leaf) error {
	ids := make([]ID, len(leafs))
	for i := range leafs {
		ids[i] = leafs[i].id
	}
	lacks, err := c.lacks(ctx, ids)
	if err != nil {
		return err
	}
	rest, restIDs := pick(ids, func(i int) bool { return lacks[i] })
	c.present += int64(len(ids) - len(rest))
	err = c.fetch(ctx, restIDs, func(n int, o Object) error { return c.put(ctx, o, &leafs[rest[n]]) })
	return c.explain(ctx, err, func(n int) (ID, int32) { return restIDs[n], leafs[rest[n]].parent })
}

// put puts the bytes of object into dst, after it has compared them with want.
func (c *copier) put(ctx context.Context, object Object, want *leaf) error {
	size := want.size
	if size == anySize {
		size = object.Size
	}
	if object.Size != size {
		return &DamagedError{ID: want.id, Err: fmt.Errorf("it has %d bytes, its tree lists %d", object.Size, size)}
	}
	if size <= copySmall {
		buf := buffers.Get().(*[]byte)
		defer giveBuffer(buf)
		b, err := readWhole(*buf, object, want.id, size)
		if err != nil {
			return err
		}
		*buf = b
		return c.putBytes(ctx, want.id, b)
	}
	info, err := c.batch.Put(ctx, want.id.Kind, Verify(Info{want.id, size}, object))
	return c.count(want.id, info.Digest, size, err)
}

// putBytes puts bytes that are in memory and must be those of id.
func (c *copier) putBytes(ctx context.Context, id ID, b []byte) error {
	// PutBytes hashes the bytes, so count compares the digest afterwards. After a mismatch the batch is never
	// committed.
	found, err := c.batch.PutBytes(ctx, id.Kind, b)
	return c.count(id, found, int64(len(b)), err)
}

// count counts an object that was put, or returns an error if its digest is wrong.
func (c *copier) count(id ID, found Digest, size int64, err error) error {
	if err == nil && found != id.Digest {
		err = &DamagedError{ID: id, Found: found}
	}
	if err == nil {
		c.objects.Add(1)
		c.bytes.Add(size)
	}
	return err
}

// lacks reports for each of ids, which has no duplicates, whether dst lacks it.
func (c *copier) lacks(ctx context.Context, ids []ID) ([]bool, error) {
	missing, err := c.batch.Missing(ctx, ids)
	lacks := make([]bool, len(ids))
	for i := range ids {
		if len(missing) > 0 && ids[i] == missing[0] {
			lacks[i], missing = true, missing[1:]
		}
	}
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the store reports %s as missing, but was not asked for it", missing[0])
	}
	return lacks, err
}

// pick returns the positions in ids for which choose is true, and the ids at these positions.
func pick(ids []ID, choose func(i int) bool) (places []int, picked []ID) {
	for i := range ids {
		if choose(i) {
			places, picked = append(places, i), append(picked, ids[i])
		}
	}
	return places, picked
}

// A fetchError is the error of one object of a fetch.
type fetchError struct {
	n      int  // the object's position
	absent bool // src lacks the object
	err    error
}

func (e *fetchError) Error() string { return e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// fetch is Fetch from src. Its error is a *fetchError if the object is known.
func (c *copier) fetch(ctx context.Context, ids []ID, visit func(n int, o Object) error) error {
	visits := make([]atomic.Bool, len(ids))
	err := Fetch(ctx, c.src, ids, func(n int, o Object) error {
		visits[n].Store(true)
		if err := visit(n, o); err != nil {
			return &fetchError{n, false, err}
		}
		return nil
	})
	if _, ok := errors.AsType[*fetchError](err); !ok && errors.Is(err, fs.ErrNotExist) {
		if n, ok := absent(ctx, c.src, ids); ok {
			return &fetchError{n, true, err}
		}
	}
	for n := range visits {
		if err == nil && !visits[n].Load() {
			return &fetchError{n, false, errPassedOver}
		}
	}
	return err
}

var errPassedOver = errors.New("the store skipped it without an error")

// explain adds the path to a fetchError; find returns the object at a position and the node that lists it.
func (c *copier) explain(ctx context.Context, err error, find func(n int) (id ID, parent int32)) error {
	fetchError, ok := errors.AsType[*fetchError](err)
	if !ok {
		return err
	}
	id, parent := find(fetchError.n)
	path, tree := "", ID{}
	if parent != noParent {
		tree = ID{TreeKind, c.nodes[parent].digest}
		path = join(c.path(parent), c.name(ctx, tree, id))
	}
	switch {
	case fetchError.absent:
		return missing(id, path, tree, fetchError.err)
	case path == "":
		return fetchError.err
	}
	return fmt.Errorf("%q: %w", path, fetchError.err)
}

// name returns the name of an object in a tree. The graph doesn't keep names of files, so name reads the tree again.
func (c *copier) name(ctx context.Context, tree, id ID) string {
	for _, g := range []Getter{c.dst, c.src} {
		entries, _ := ReadTree(ctx, g, tree.Digest)
		for i := range entries {
			if entries[i].ID() == id {
				return entries[i].Name
			}
		}
	}
	return id.Digest.String()
}
