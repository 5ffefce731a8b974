package tlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	merkle "golang.org/x/mod/sumdb/tlog"

	"github.com/rye-build/rye/cas/fault"
)

// A Tail is the right edge of a growing tree: what its owner needs to add entries. It isn't safe for concurrent use.
type Tail struct {
	size    int64
	levels  [][]Hash // of each level, the hashes of its last tile; fewer than 256
	entries []byte   // the last file of entries
}

// A File is a file of the log and its content.
type File struct {
	Name string
	Data []byte
}

// Size returns the number of entries.
func (t *Tail) Size() int64 { return t.size }

// Add adds an entry, and returns the files that are complete with it.
func (t *Tail) Add(entry []byte) ([]File, error) {
	if len(entry) == 0 || len(entry) > MaxEntry {
		return nil, fault.New(fault.Validation, "a log entry has 1 to %d bytes, and not %d", MaxEntry, len(entry))
	}
	t.entries = append(binary.BigEndian.AppendUint16(t.entries, uint16(len(entry))), entry...)
	t.size++
	var full []File
	if t.size%width == 0 {
		full = append(full, File{entriesPath(t.size/width-1, width), t.entries})
		t.entries = nil
	}
	hash := merkle.RecordHash(entry)
	for level := 0; ; level++ {
		if level == len(t.levels) {
			t.levels = append(t.levels, nil)
		}
		t.levels[level] = append(t.levels[level], hash)
		if len(t.levels[level]) < width {
			return full, nil
		}
		n := t.size>>(height*(level+1)) - 1
		full = append(full, File{tilePath(level, n, width), tileData(t.levels[level])})
		hash, _ = fold(t.levels[level], nil)
		t.levels[level] = nil
	}
}

// Partial returns the files of the right edge, which a checkpoint of this size needs.
func (t *Tail) Partial() []File {
	var files []File
	if len(t.entries) > 0 {
		name := entriesPath(t.size/width, int(t.size%width))
		files = append(files, File{name, t.entries[:len(t.entries):len(t.entries)]})
	}
	for level, hashes := range t.levels {
		if len(hashes) > 0 {
			n := t.size >> (height * (level + 1))
			files = append(files, File{tilePath(level, n, len(hashes)), tileData(hashes)})
		}
	}
	return files
}

func tileData(hashes []Hash) []byte {
	b := make([]byte, 0, len(hashes)*merkle.HashSize)
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	return b
}

// Root returns the root of the tree.
func (t *Tail) Root() Hash {
	var root *Hash
	for _, hashes := range t.levels {
		if hash, ok := fold(hashes, root); ok {
			root = &hash
		}
	}
	if root == nil {
		root = new(Hash)
		*root, _ = merkle.TreeHash(0, nil)
	}
	return *root
}

// fold returns the hash of the tree over hashes, with right to the right of it.
func fold(hashes []Hash, right *Hash) (Hash, bool) {
	// The hashes are perfect trees whose sizes are the bits of their number, the smallest at the right.
	for end := len(hashes); end > 0; {
		size := end & -end
		hash := perfect(hashes[end-size : end])
		if right != nil {
			hash = merkle.NodeHash(hash, *right)
		}
		right, end = &hash, end-size
	}
	if right == nil {
		return Hash{}, false
	}
	return *right, true
}

func perfect(hashes []Hash) Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return merkle.NodeHash(perfect(hashes[:half]), perfect(hashes[half:]))
}

// OpenTail reads the right edge of a tree of this size from its files, and compares it with the root.
func OpenTail(ctx context.Context, c *Checkpoint, files Files) (*Tail, error) {
	t := &Tail{size: c.Size}
	for level := 0; c.Size>>(height*level) > 0; level++ {
		count := int(c.Size >> (height * level) % width)
		t.levels = append(t.levels, nil)
		if count == 0 {
			continue
		}
		name := tilePath(level, c.Size>>(height*(level+1)), count)
		b, err := files.ReadFile(ctx, name, int64(count)*merkle.HashSize)
		if err != nil {
			return nil, err
		}
		if len(b) != count*merkle.HashSize {
			return nil, damaged(name, fmt.Errorf("it has %d bytes", len(b)))
		}
		for ; len(b) > 0; b = b[merkle.HashSize:] {
			t.levels[level] = append(t.levels[level], Hash(b[:merkle.HashSize]))
		}
	}
	if t.Root() != c.Root {
		return nil, damaged(CheckpointFile, errors.New("the tiles don't lead to its root"))
	}
	if count := int(c.Size % width); count > 0 {
		name := entriesPath(c.Size/width, count)
		b, err := files.ReadFile(ctx, name, int64(count)*entryFile)
		if err != nil {
			return nil, err
		}
		entries, err := splitEntries(b, count)
		for i := 0; err == nil && i < count; i++ {
			if merkle.RecordHash(entries[i]) != t.levels[0][i] {
				err = fmt.Errorf("entry %d is not the tree's", i)
			}
		}
		if err != nil {
			return nil, damaged(name, err)
		}
		t.entries = b[:len(b):len(b)]
	}
	return t, nil
}

func damaged(name string, err error) error {
	return fault.New(fault.Integrity, "the file %q of the log is damaged", name).From(err).On("path", name)
}
