package worktree

import (
	"bytes"
	"encoding/binary"

	"github.com/rye-build/rye/cas"
)

// Where things are in a value, a file's record and a directory's record; see the package comment.
const (
	sumSize = 16

	valueDay   = sumSize
	valueBoot  = valueDay + 4
	valueWall  = valueBoot + 8
	valueUp    = valueWall + 8
	valueTree  = valueUp + 8
	valueFiles = valueTree + cas.Size
	valueDirs  = valueFiles + 4
	valueHead  = valueDirs + 4

	recordSize   = 8
	recordMtime  = 16
	recordCtime  = 24
	recordMode   = 32
	recordDigest = 36
	recordName   = recordDigest + cas.Size
	recordHead   = recordName + 1

	dirName = cas.Size
	dirHead = dirName + 1
)

var order = binary.LittleEndian

// A value is what the cache holds of one directory. The zero value is none.
type value struct{ b []byte }

// appendValue appends the value of a directory, but for the sum.
func appendValue(b []byte, d *dir, tree cas.Digest, now Moment) []byte {
	first := len(b)
	b = append(b, make([]byte, valueHead)...)
	head := b[first:]
	order.PutUint32(head[valueDay:], now.day())
	order.PutUint64(head[valueBoot:], now.Boot)
	order.PutUint64(head[valueWall:], uint64(now.Wall))
	order.PutUint64(head[valueUp:], uint64(now.Up))
	copy(head[valueTree:], tree[:])
	files := uint32(0)
	for i := range d.files {
		f := &d.files[i]
		if f.stamp == (stamp{}) {
			continue
		}
		files++
		b = order.AppendUint64(b, f.stamp.ino)
		b = order.AppendUint64(b, uint64(f.stamp.size))
		b = order.AppendUint64(b, uint64(f.stamp.mtime))
		b = order.AppendUint64(b, uint64(f.stamp.ctime))
		b = order.AppendUint32(b, f.stamp.mode)
		b = append(b, f.digest[:]...)
		b = append(append(b, byte(len(f.name))), f.name...)
	}
	for i := range d.subs {
		s := &d.subs[i]
		b = append(append(append(b, s.digest[:]...), byte(len(s.name))), s.name...)
	}
	order.PutUint32(b[first+valueFiles:], files)
	order.PutUint32(b[first+valueDirs:], uint32(len(d.subs)))
	return b
}

// sumOf returns what the first bytes of a value must be.
func sumOf(key, b []byte) (sum [sumSize]byte) {
	h := cas.NewHasher()
	var n [4]byte
	order.PutUint32(n[:], uint32(len(key)))
	h.Write([]byte(version + "\x00"))
	h.Write(n[:])
	h.Write(key)
	h.Write(b[sumSize:])
	all := h.Digest()
	copy(sum[:], all[:])
	return sum
}

// seal gives a value its sum.
func seal(key, b []byte) {
	sum := sumOf(key, b)
	copy(b, sum[:])
}

// openValue returns what was sealed under key, or nothing. It keeps b.
func openValue(key, b []byte) value {
	if len(b) < valueHead {
		return value{}
	}
	sum := sumOf(key, b)
	if !bytes.Equal(sum[:], b[:sumSize]) {
		return value{}
	}
	v := value{b}
	if !v.wellFormed() {
		return value{}
	}
	return v
}

// wellFormed walks over all records, so that nobody else has to look at lengths.
func (v value) wellFormed() bool {
	at := valueHead
	for _, kind := range [...]struct{ count, head int }{{valueFiles, recordHead}, {valueDirs, dirHead}} {
		var prev []byte
		for n := order.Uint32(v.b[kind.count:]); n > 0; n-- {
			if len(v.b)-at < kind.head {
				return false
			}
			end := at + kind.head + int(v.b[at+kind.head-1])
			if end > len(v.b) {
				return false
			}
			name := v.b[at+kind.head : end]
			if bytes.Compare(prev, name) >= 0 {
				return false
			}
			prev, at = name, end
		}
	}
	return at == len(v.b)
}

func (v value) day() uint32 { return order.Uint32(v.b[valueDay:]) }

func (v value) written() Moment {
	return Moment{
		Boot: order.Uint64(v.b[valueBoot:]), Wall: int64(order.Uint64(v.b[valueWall:])), Up: int64(order.Uint64(v.b[valueUp:])),
	}
}

func (v value) tree() cas.Digest { return cas.Digest(v.b[valueTree : valueTree+cas.Size]) }

// says reports whether b, another value, tells the same about the directory.
func (v value) says(b []byte) bool {
	return v.b != nil && bytes.Equal(v.b[valueTree:], b[valueTree:])
}

// A cursor walks over the records of files and then of directories.
type cursor struct {
	b    []byte
	at   int
	left uint32 // records of this kind
	head int
}

func (v value) records() cursor {
	return cursor{v.b, valueHead, order.Uint32(v.b[valueFiles:]), recordHead}
}

func (c *cursor) more() bool { return c.left > 0 }

func (c *cursor) name() []byte {
	from := c.at + c.head
	return c.b[from : from+int(c.b[from-1])]
}

func (c *cursor) next() {
	c.at += c.head + int(c.b[c.at+c.head-1])
	c.left--
}

// sameDirs reports whether the value's directories are subs.
func (v value) sameDirs(subs []sub) bool {
	n := order.Uint32(v.b[valueDirs:])
	if int(n) != len(subs) {
		return false
	}
	c := v.records()
	for c.more() {
		c.next()
	}
	c.left, c.head = n, dirHead
	for i := range subs {
		if string(c.name()) != subs[i].name || cas.Digest(c.b[c.at:c.at+cas.Size]) != subs[i].digest {
			return false
		}
		c.next()
	}
	return true
}

// A record is what is remembered of a file.
type record []byte

func (v value) record(at int32) record { return v.b[at : at+recordHead] }

// matches reports whether the file, on the device of its directory, is still what was recorded.
func (r record) matches(s *stamp) bool {
	return order.Uint64(r) == s.ino && int64(order.Uint64(r[recordSize:])) == s.size &&
		int64(order.Uint64(r[recordMtime:])) == s.mtime && int64(order.Uint64(r[recordCtime:])) == s.ctime &&
		order.Uint32(r[recordMode:]) == s.mode
}

func (r record) digest(d *cas.Digest) { copy(d[:], r[recordDigest:]) }
