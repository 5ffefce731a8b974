package worktree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
)

// What follows is the part of bbolt's file format that its own code takes for granted: a page is an id (8), flags
// (2), a count (2) and the number of pages that it goes on for (4), then the elements: position (4), length of
// the key (4) and page (8) on branches; flags (4), position (4), lengths of key (4) and value (4) on leaves. All in
// the machine's byte order.
const (
	pageHead    = 16
	elementSize = 16

	branchPage = 1
	leafPage   = 2

	bucketElement = 1
	bucketHead    = 16

	metaFreelist = pageHead + 32 // where the first two pages name that of the free ones
	noFreelist   = 1<<64 - 1
)

var errPages = errors.New("its pages are no tree")

// checkPages sees that the pages below root form a tree within the file, each page once, and that their elements
// lie within them. A file that was torn by a loss of power may hold old pages in the place of new ones, each
// right in itself; where they form a circle bbolt descends until the stack is full, which ends the process.
//
// With keys it also sees that keys are in order. Where they aren't, reading misses values, which does no harm, but
// what is written goes astray for ever.
func checkPages(f *os.File, root uint64, keys bool) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	for id := range int64(2) {
		var list [8]byte
		if _, err := f.ReadAt(list[:], id*pageSize+metaFreelist); err != nil || binary.NativeEndian.Uint64(list[:]) == noFreelist {
			return errPages // see openCacheFile
		}
	}
	c := pageChecker{f: f, keys: keys, pages: uint64(fi.Size() / pageSize), seen: make([]bool, fi.Size()/pageSize)}
	return c.check(root, true)
}

type pageChecker struct {
	f     *os.File
	keys  bool
	pages uint64
	seen  []bool
	last  []byte // the last key on a leaf, nil before the first
	least []byte // what the branches above say that no later key is less than
}

// check descends no deeper than there are pages, since none is entered twice.
func (c *pageChecker) check(id uint64, buckets bool) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	overflow := uint64(binary.NativeEndian.Uint32(p[12:]))
	if overflow >= c.pages-id {
		return errPages
	}
	for i := id; i <= id+overflow; i++ {
		if c.seen[i] {
			return errPages
		}
		c.seen[i] = true
	}
	return c.elements(p, int64(id)*pageSize, (overflow+1)*pageSize, buckets)
}

// elements checks what is on a page that begins at the offset at, of which p are the first bytes.
func (c *pageChecker) elements(p []byte, at int64, size uint64, buckets bool) error {
	count := int(binary.NativeEndian.Uint16(p[10:]))
	if end := pageHead + count*elementSize; uint64(end) > size {
		return errPages
	} else if end > len(p) {
		p = make([]byte, end)
		if _, err := c.f.ReadAt(p, at); err != nil {
			return errPages
		}
	}
	kind := binary.NativeEndian.Uint16(p[8:])
	if kind != leafPage && (kind != branchPage || count == 0) {
		return errPages
	}
	for i := range count {
		here := pageHead + i*elementSize
		e := p[here : here+elementSize]
		var err error
		if kind == branchPage {
			err = c.branch(e, at, uint64(here), size, buckets)
		} else {
			err = c.leaf(e, at, uint64(here), size, buckets)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// page reads the first bytes of a page, all of it if it goes on for no more pages.
func (c *pageChecker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.pages {
		return nil, errPages
	}
	p := make([]byte, pageSize)
	if _, err := c.f.ReadAt(p, int64(id)*pageSize); err != nil && err != io.EOF {
		return nil, err
	}
	if binary.NativeEndian.Uint64(p) != id {
		return nil, errPages
	}
	return p, nil
}

// branch checks an element, which is at here on a page at the offset at, and what is below it.
func (c *pageChecker) branch(e []byte, at int64, here, size uint64, buckets bool) error {
	pos, key := binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:])
	from := here + uint64(pos)
	if from+uint64(key) > size {
		return errPages
	}
	if c.keys {
		k, err := c.key(at+int64(from), key)
		if err != nil {
			return err
		}
		c.least = k
	}
	return c.check(binary.NativeEndian.Uint64(e[8:]), buckets)
}

// leaf also descends into the buckets of the root; those have none.
func (c *pageChecker) leaf(e []byte, at int64, here, size uint64, buckets bool) error {
	flags, pos := binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:])
	key, val := binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
	from := here + uint64(pos)
	if from+uint64(key)+uint64(val) > size || flags&^bucketElement != 0 {
		return errPages
	}
	if c.keys {
		k, err := c.key(at+int64(from), key)
		if err != nil {
			return err
		}
		c.last = k
	}
	if flags == 0 {
		return nil
	}
	if !buckets || val < bucketHead {
		return errPages
	}
	last, least := c.last, c.least
	c.last, c.least = nil, nil
	if err := c.bucket(at+int64(from)+int64(key), uint64(val)); err != nil {
		return err
	}
	c.last, c.least = last, least
	return nil
}

// key reads a key and compares it with what went before.
func (c *pageChecker) key(at int64, size uint32) ([]byte, error) {
	if size == 0 || size > bolt.MaxKeySize {
		return nil, errPages
	}
	k := make([]byte, size)
	if _, err := c.f.ReadAt(k, at); err != nil {
		return nil, errPages
	}
	if c.last != nil && bytes.Compare(c.last, k) >= 0 || bytes.Compare(c.least, k) > 0 {
		return nil, errPages
	}
	return k, nil
}

// bucket checks the value that is a bucket: the page of its root or, where that is 0, a page in the value.
func (c *pageChecker) bucket(at int64, size uint64) error {
	var head [bucketHead + pageHead]byte
	n := min(size, uint64(len(head)))
	if _, err := c.f.ReadAt(head[:n], at); err != nil {
		return errPages
	}
	if root := binary.NativeEndian.Uint64(head[:]); root != 0 {
		return c.check(root, false)
	}
	if n < uint64(len(head)) || binary.NativeEndian.Uint16(head[bucketHead+8:]) != leafPage {
		return errPages
	}
	return c.elements(head[bucketHead:], at+bucketHead, size-bucketHead, false)
}
