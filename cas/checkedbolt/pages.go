package checkedbolt

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
)

// The part of bbolt's file format that its own code doesn't check. A page is an id (8), flags (2), a count (2) and
// the number of pages that continue it (4), then the elements: position (4), length of the key (4) and page (8) on
// branches; flags (4), position (4), lengths of key (4) and value (4) on leaves. All in the machine's byte order.
const (
	pageSize    = 4096
	pageHead    = 16
	elementSize = 16

	branchPage    = 1
	leafPage      = 2
	freelistPage  = 16
	bucketElement = 1
	bucketHead    = 16

	// The first two pages describe this transaction and the last one: the page where the list of free pages begins,
	// the first page that was never used, and the transaction's number.
	metaFreelist = pageHead + 32
	metaUnused   = metaFreelist + 8
	metaTx       = metaUnused + 8
	metaSize     = metaTx + 8
)

// A pageChecker checks that the pages form a tree within the file, each page once, and that their elements lie
// within them. If pages formed a circle, bbolt would descend until the stack is full, which ends the process.
//
// Before writing it also checks that keys are in order and that no page of the tree is listed as free. Otherwise a
// read misses values, which does no harm, but a write is lost forever or overwrites other values.
type pageChecker struct {
	f     *os.File
	write bool
	pages uint64
	seen  []bool
	last  []byte // the last key on a leaf, nil before the first
	least []byte // the least key that the branches above allow
	held  int64  // bytes of the keys and values so far
}

func newChecker(f *os.File, write bool) (*pageChecker, error) {
	fi, err := f.Stat()
	if err != nil {
		return &pageChecker{}, err
	}
	pages := fi.Size() / pageSize
	return &pageChecker{f: f, write: write, pages: uint64(pages), seen: make([]bool, pages)}, nil
}

// checkPages checks the tree of a transaction.
func checkPages(f *os.File, tx *bolt.Tx, write bool) error {
	c, err := newChecker(f, write)
	if err == nil {
		err = c.page(uint64(tx.Cursor().Bucket().Root()), true)
	}
	if err == nil && write {
		err = c.free(uint64(tx.ID()))
	}
	return err
}

// page checks a page and the pages below it. It enters none twice, so the number of pages bounds its depth.
func (c *pageChecker) page(id uint64, buckets bool) error {
	if id < 2 || id >= c.pages {
		return ErrDamaged
	}
	data := make([]byte, pageSize)
	at := int64(id) * pageSize
	if _, err := c.f.ReadAt(data, at); err != nil && err != io.EOF {
		return err
	}
	more := uint64(binary.NativeEndian.Uint32(data[12:]))
	if binary.NativeEndian.Uint64(data) != id || more >= c.pages-id {
		return ErrDamaged
	}
	for i := id; i <= id+more; i++ {
		if c.seen[i] {
			return ErrDamaged
		}
		c.seen[i] = true
	}
	if end := pageHead + int(binary.NativeEndian.Uint16(data[10:]))*elementSize; end > len(data) {
		data = make([]byte, end)
		if _, err := c.f.ReadAt(data, at); err != nil {
			return ErrDamaged
		}
	}
	return c.elements(data, at, (more+1)*pageSize, buckets)
}

// elements checks the elements of the page that begins with data. Only the root page has buckets, which aren't nested.
func (c *pageChecker) elements(data []byte, at int64, size uint64, buckets bool) error {
	kind, count := binary.NativeEndian.Uint16(data[8:]), uint64(binary.NativeEndian.Uint16(data[10:]))
	if kind != leafPage && (kind != branchPage || count == 0) || pageHead+count*elementSize > size {
		return ErrDamaged
	}
	for i := range count {
		here := pageHead + i*elementSize
		element := data[here : here+elementSize]
		word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(element[i:])) }
		if kind == branchPage {
			from := here + word(0)
			if from+word(4) > size {
				return ErrDamaged
			}
			key, err := c.key(data, at, from, word(4))
			if err != nil {
				return err
			}
			c.least = key
			if err := c.page(binary.NativeEndian.Uint64(element[8:]), buckets); err != nil {
				return err
			}
			continue
		}
		from := here + word(4)
		if from+word(8)+word(12) > size || word(0) != 0 && (word(0) != bucketElement || !buckets) {
			return ErrDamaged
		}
		key, err := c.key(data, at, from, word(8))
		if err != nil {
			return err
		}
		c.last = key
		if word(0) == bucketElement {
			if err := c.bucket(at+int64(from+word(8)), word(12)); err != nil {
				return err
			}
			continue
		}
		c.held += int64(word(8) + word(12))
	}
	return nil
}

// key returns the key at from on a page, and checks that it is in order. Unless c.write is set, it does nothing.
func (c *pageChecker) key(p []byte, at int64, from, size uint64) ([]byte, error) {
	if !c.write {
		return nil, nil
	}
	if size == 0 || size > bolt.MaxKeySize {
		return nil, ErrDamaged
	}
	var k []byte
	if from+size <= uint64(len(p)) {
		k = p[from : from+size]
	} else {
		k = make([]byte, size)
		if _, err := c.f.ReadAt(k, at+int64(from)); err != nil {
			return nil, ErrDamaged
		}
	}
	if c.last != nil && bytes.Compare(c.last, k) >= 0 || bytes.Compare(c.least, k) > 0 {
		return nil, ErrDamaged
	}
	return k, nil
}

// bucket checks a value that is a bucket: the page of its root, or a page in the value if that number is 0.
func (c *pageChecker) bucket(at int64, size uint64) error {
	if size < bucketHead || size > pageSize {
		return ErrDamaged
	}
	b := make([]byte, size)
	if _, err := c.f.ReadAt(b, at); err != nil {
		return ErrDamaged
	}
	last, least := c.last, c.least
	c.last, c.least = nil, nil
	defer func() { c.last, c.least = last, least }()
	if root := binary.NativeEndian.Uint64(b); root != 0 {
		return c.page(root, false)
	}
	p := b[bucketHead:]
	if len(p) < pageHead || binary.NativeEndian.Uint16(p[8:]) != leafPage ||
		pageHead+int(binary.NativeEndian.Uint16(p[10:]))*elementSize > len(p) {
		return ErrDamaged
	}
	return c.elements(p, at+bucketHead, size-bucketHead, false)
}

// free checks the list of free pages that a transaction left: a page's head, then the numbers of unused pages, in
// order. If the count is the greatest possible, the first number is the count instead. Without a list bbolt would
// search for free pages in its own goroutine, where a panic can't be caught.
func (c *pageChecker) free(tx uint64) error {
	var meta [metaSize]byte
	for id := range int64(2) {
		if _, err := c.f.ReadAt(meta[:], id*pageSize); err != nil {
			return ErrDamaged
		}
		if binary.NativeEndian.Uint64(meta[metaTx:]) == tx {
			break
		}
	}
	id, unused := binary.NativeEndian.Uint64(meta[metaFreelist:]), binary.NativeEndian.Uint64(meta[metaUnused:])
	if binary.NativeEndian.Uint64(meta[metaTx:]) != tx || id < 2 || id >= c.pages || c.seen[id] {
		return ErrDamaged
	}
	head := make([]byte, pageHead+8)
	if _, err := c.f.ReadAt(head, int64(id)*pageSize); err != nil {
		return ErrDamaged
	}
	count, more := uint64(binary.NativeEndian.Uint16(head[10:])), uint64(binary.NativeEndian.Uint32(head[12:]))
	from := uint64(pageHead)
	if count == 1<<16-1 {
		count, from = binary.NativeEndian.Uint64(head[pageHead:]), from+8
	}
	if binary.NativeEndian.Uint64(head) != id || binary.NativeEndian.Uint16(head[8:]) != freelistPage ||
		more >= c.pages-id || count > ((more+1)*pageSize-from)/8 {
		return ErrDamaged
	}
	list := make([]byte, 8*count)
	if _, err := c.f.ReadAt(list, int64(id*pageSize+from)); err != nil && count > 0 {
		return ErrDamaged
	}
	last := uint64(1)
	for ; len(list) > 0; list = list[8:] {
		p := binary.NativeEndian.Uint64(list)
		if p <= last || p >= unused || p < c.pages && c.seen[p] || p >= id && p <= id+more {
			return ErrDamaged
		}
		last = p
	}
	return nil
}
