package cas

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/portable"
)

// The limits of one tree bound the cost of reading a hostile one.
const (
	MaxTreeBytes   = 32 << 20
	MaxTreeEntries = 1 << 18
)

// EmptyTree is the digest of the tree without entries. Only a root may be empty.
var EmptyTree = Digest{
	0x3d, 0x85, 0x9e, 0x4a, 0xc5, 0xb4, 0x30, 0x03, 0x8e, 0xe7, 0x8c, 0xfa, 0x4a, 0x0f, 0xfc, 0x7a,
	0x63, 0x11, 0xae, 0xa2, 0xb3, 0x77, 0x7d, 0xb8, 0x60, 0x11, 0xc5, 0x2b, 0x12, 0x20, 0x33, 0xaf,
}

// A Mode is the type of a tree's entry. The zero Mode is invalid.
type Mode uint8

// The modes.
const (
	File Mode = 1 + iota // a file
	Exec                 // a file that may be executed
	Dir                  // a directory
)

// String returns "file", "exec" or "dir".
func (m Mode) String() string {
	switch m {
	case File:
		return "file"
	case Exec:
		return "exec"
	case Dir:
		return "dir"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// MarshalText writes the form of String.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// An Entry is a file or a directory in a tree.
type Entry struct {
	Name   string // one portable segment
	Mode   Mode
	Digest Digest // of a blob, or of a tree when Mode is Dir
	Size   int64  // of a file, in bytes; 0 when Mode is Dir
}

// ID returns the name of the object that holds the file's bytes or the directory's tree.
func (e *Entry) ID() ID {
	if e.Mode == Dir {
		return ID{TreeKind, e.Digest}
	}
	return ID{Blob, e.Digest}
}

// checkTree returns the index of the first invalid entry, and its error.
func (c *treeCoder) checkTree(entries []Entry) (int, error) {
	c.folds, c.spans = c.folds[:0], c.spans[:0]
	for i := range entries {
		entry := &entries[i]
		if err := portable.CheckName(entry.Name); err != nil {
			return i, err
		}
		switch {
		case entry.Mode < File || entry.Mode > Dir:
			return i, errMode
		case entry.Digest.IsZero():
			return i, errDigest
		case entry.Size < 0 || entry.Size > canon.MaxInt || entry.Mode == Dir && entry.Size != 0:
			return i, errSize
		case entry.Mode == Dir && entry.Digest == EmptyTree:
			return i, errEmptyDir
		}
		if i > 0 {
			switch prev := &entries[i-1]; {
			case prev.Name < entry.Name:
			case prev.Name == entry.Name && (prev.Mode == Dir) != (entry.Mode == Dir):
				return i, errBoth
			default:
				return i, errOrder
			}
		}
		c.addFold(i, entry.Name)
	}
	return c.checkFolds(entries)
}

// A span is the fold of an entry's name in treeCoder.folds.
type span struct{ from, to, entry int32 }

// addFold adds the case fold of a name if it differs from the name. ASCII, the common case, needs no allocation.
func (c *treeCoder) addFold(entry int, name string) {
	i := 0
	for i < len(name) && name[i] < 0x80 && (name[i] < 'A' || name[i] > 'Z') {
		i++
	}
	if i == len(name) {
		return
	}
	from := len(c.folds)
	c.folds = append(c.folds, name...)
	for fold := c.folds[from:]; i < len(fold); i++ {
		switch b := fold[i]; {
		case 'A' <= b && b <= 'Z':
			fold[i] = b + 'a' - 'A'
		case b >= 0x80:
			c.folds = append(c.folds[:from], portable.Fold(name)...)
			if string(c.folds[from:]) == name {
				c.folds = c.folds[:from]
				return
			}
			i = len(fold)
		}
	}
	c.spans = append(c.spans, span{int32(from), int32(len(c.folds)), int32(entry)})
}

func (c *treeCoder) fold(s span) []byte { return c.folds[s.from:s.to] }

// checkFolds finds two names with the same fold: either one is the fold of the other, or both are in c.spans.
func (c *treeCoder) checkFolds(entries []Entry) (int, error) {
	slices.SortFunc(c.spans, func(a, b span) int {
		return cmp.Or(bytes.Compare(c.fold(a), c.fold(b)), cmp.Compare(a.entry, b.entry))
	})
	for i, s := range c.spans {
		fold := c.fold(s)
		other := sort.Search(len(entries), func(i int) bool { return entries[i].Name >= string(fold) })
		twice := other < len(entries) && entries[other].Name == string(fold)
		if i > 0 && bytes.Equal(c.fold(c.spans[i-1]), fold) {
			other, twice = int(c.spans[i-1].entry), true
		}
		if twice {
			return int(s.entry), fmt.Errorf("same name as %q on file systems that ignore case", entries[other].Name)
		}
	}
	return 0, nil
}
