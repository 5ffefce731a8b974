package tlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	merkle "golang.org/x/mod/sumdb/tlog"

	"github.com/rye-build/rye/cas/fault"
)

// Files reads the files of a log by their names below it. A missing file is an fs.ErrNotExist. It is safe for
// concurrent use.
type Files interface {
	ReadFile(ctx context.Context, name string, limit int64) ([]byte, error)
}

const (
	height    = 8
	width     = 1 << height
	entryFile = 2 + MaxEntry // bytes of the largest entry in a file of entries
)

// CheckpointFile is the name of the newest checkpoint.
const CheckpointFile = "checkpoint"

// A Tree is the tree of a checkpoint, in files that need not be trusted.
type Tree struct {
	*Checkpoint
	files Files
}

// NewTree returns the tree of a checkpoint that its caller believes.
func NewTree(c *Checkpoint, files Files) Tree { return Tree{c, files} }

// Prove returns a proof that the log has this entry at this index.
func (t Tree) Prove(ctx context.Context, index int64, entry []byte) (*Proof, error) {
	if index < 0 || index >= t.Size {
		return nil, notIncluded(t.Checkpoint, index, errors.New("the log has fewer entries"))
	}
	hashes, err := merkle.ProveRecord(t.Size, index, t.reader(ctx))
	if err == nil {
		err = merkle.CheckRecord(hashes, t.Size, t.Root, index, merkle.RecordHash(entry))
	}
	if err != nil {
		return nil, t.broken(index, err)
	}
	return &Proof{Entry: entry, Index: index, Hashes: hashes, Checkpoint: t.Text}, nil
}

// broken returns the error of files that could not be read or don't lead to the root.
func (t Tree) broken(index int64, err error) error {
	if fault.CodeOf(err) != fault.Unknown {
		return err
	}
	return notIncluded(t.Checkpoint, index, err)
}

// Extends returns nil if the tree begins with all entries of an older checkpoint of the same log.
func (t Tree) Extends(ctx context.Context, old *Checkpoint) error {
	wrong := func(err error) error {
		return fault.New(fault.Rollback, "the log %q has rewritten its history: its checkpoint of size %d does not "+
			"continue the one of size %d that was seen before", t.Origin, t.Size, old.Size).From(err).
			On("log", t.Origin).On("size", t.Size).On("seen", old.Size)
	}
	switch {
	case old.Size == 0:
		return nil
	case old.Size > t.Size:
		return fault.New(fault.Rollback, "the checkpoint of the log %q is stale: it has %d entries, and %d were seen "+
			"before", t.Origin, t.Size, old.Size).On("log", t.Origin).On("size", t.Size).On("seen", old.Size)
	case old.Size == t.Size:
		if old.Root != t.Root {
			return wrong(errors.New("the roots differ"))
		}
		return nil
	}
	proof, err := merkle.ProveTree(t.Size, old.Size, t.reader(ctx))
	if err == nil {
		if err = merkle.CheckTree(proof, t.Size, t.Root, old.Size, old.Root); err != nil {
			return wrong(err)
		}
		return nil
	}
	return t.broken(old.Size, err)
}

// Consistency returns the hashes that show a witness that the tree continues one of an older size.
func (t Tree) Consistency(ctx context.Context, old int64) ([]Hash, error) {
	if old == 0 || old == t.Size {
		return nil, nil
	}
	proof, err := merkle.ProveTree(t.Size, old, t.reader(ctx))
	if err != nil {
		return nil, t.broken(old, err)
	}
	return proof, nil
}

// Entries calls visit for the entries from an index on, in order, each proven to be in the tree.
func (t Tree) Entries(ctx context.Context, from int64, visit func(index int64, entry []byte) error) error {
	for n := from / width; n*width < t.Size; n++ {
		count := min(t.Size-n*width, width)
		entries, err := t.bundle(ctx, n, int(count))
		if err != nil {
			return err
		}
		for i, entry := range entries {
			if index := n*width + int64(i); index >= from {
				if err := visit(index, entry); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Entry returns the entry at an index.
func (t Tree) Entry(ctx context.Context, index int64) ([]byte, error) {
	if index < 0 || index >= t.Size {
		return nil, notIncluded(t.Checkpoint, index, errors.New("the log has fewer entries"))
	}
	n := index / width
	entries, err := t.bundle(ctx, n, int(min(t.Size-n*width, width)))
	if err != nil {
		return nil, err
	}
	return entries[index%width], nil
}

// bundle returns the entries of a tile of level 0, compared with the tree.
func (t Tree) bundle(ctx context.Context, n int64, count int) ([][]byte, error) {
	b, err := t.read(ctx, entriesPath(n, count), entriesPath(n, width), int64(count)*entryFile)
	if err != nil {
		return nil, t.broken(n*width, err)
	}
	entries, err := splitEntries(b, count)
	if err != nil {
		return nil, notIncluded(t.Checkpoint, n*width, err)
	}
	indexes := make([]int64, count)
	for i := range indexes {
		indexes[i] = merkle.StoredHashIndex(0, n*width+int64(i))
	}
	hashes, err := t.reader(ctx).ReadHashes(indexes)
	if err != nil {
		return nil, t.broken(n*width, err)
	}
	for i, entry := range entries {
		if merkle.RecordHash(entry) != hashes[i] {
			return nil, notIncluded(t.Checkpoint, n*width+int64(i), errors.New("the tree has another entry there"))
		}
	}
	return entries, nil
}

// splitEntries reads the first entries of a file of entries.
func splitEntries(b []byte, count int) ([][]byte, error) {
	entries := make([][]byte, count)
	for i := range entries {
		if len(b) < 2 {
			return nil, errors.New("the file of entries is cut off")
		}
		size := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+size {
			return nil, errors.New("the file of entries is cut off")
		}
		entries[i], b = b[2:2+size], b[2+size:]
	}
	return entries, nil
}

// read returns a file. A log may delete a file of the right edge when the full one is there.
func (t Tree) read(ctx context.Context, name, full string, limit int64) ([]byte, error) {
	b, err := t.files.ReadFile(ctx, name, limit)
	if name != full && errors.Is(err, fs.ErrNotExist) {
		whole := limit
		if limit < width*merkle.HashSize {
			whole = width * merkle.HashSize
		}
		if b, err2 := t.files.ReadFile(ctx, full, max(whole, width*entryFile)); err2 == nil {
			return b, nil
		}
	}
	return b, err
}

func (t Tree) reader(ctx context.Context) merkle.HashReader {
	return merkle.TileHashReader(merkle.Tree{N: t.Size, Hash: t.Root}, tileReader{ctx, t})
}

// A tileReader reads the tiles that package tlog of x/mod asks for, several at once. That package compares them with
// the root.
type tileReader struct {
	ctx  context.Context
	tree Tree
}

func (r tileReader) Height() int { return height }

func (r tileReader) SaveTiles([]merkle.Tile, [][]byte) {}

func (r tileReader) ReadTiles(tiles []merkle.Tile) ([][]byte, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	data, errs := make([][]byte, len(tiles)), make([]error, len(tiles))
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i, tile := range tiles {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			size := tile.W * merkle.HashSize
			b, err := r.tree.read(ctx, tilePath(tile.L, tile.N, tile.W), tilePath(tile.L, tile.N, width), int64(size))
			switch {
			case err != nil:
				cancel()
			case len(b) < size, len(b) > size && len(b) != width*merkle.HashSize:
				err = fmt.Errorf("the tile %s has %d bytes", tilePath(tile.L, tile.N, tile.W), len(b))
			default:
				data[i] = b[:size]
			}
			errs[i] = err
		})
	}
	all.Wait()
	var wrong error
	for _, err := range errs {
		if err != nil && (wrong == nil || errors.Is(wrong, context.Canceled)) {
			wrong = err
		}
	}
	return data, wrong
}

// tilePath returns the name of a tile.
func tilePath(level int, n int64, w int) string {
	return "tile/" + strconv.Itoa(level) + "/" + numberPath(n, w)
}

// entriesPath returns the name of a file of entries.
func entriesPath(n int64, w int) string { return "tile/entries/" + numberPath(n, w) }

func numberPath(n int64, w int) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n >= 1000 {
		n /= 1000
		path = fmt.Sprintf("x%03d/%s", n%1000, path)
	}
	if w < width {
		path += ".p/" + strconv.Itoa(w)
	}
	return path
}
