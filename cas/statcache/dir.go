package statcache

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/rye-build/rye/cas"
)

// Offsets in a value, a file's record and a directory's record; see the package comment.
const (
	valueWall  = 8
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

// A Dir is the state of one directory.
type Dir struct {
	Dev   uint64
	Path  string     // absolute
	Tree  cas.Digest // of the directory with all its content
	Files []File     // sorted by name; a file that is left out is read the next time, too
	Subs  []Sub      // sorted by name
}

// A File is a file of a directory: with this stamp it had this digest. It is on the directory's device.
type File struct {
	Name   string // at most 255 bytes
	Stamp  Stamp
	Digest cas.Digest
}

// A Sub is a directory in a directory. Its digest is zero if it holds no file.
type Sub struct {
	Name   string // at most 255 bytes
	Digest cas.Digest
}

// keyOf returns the key of a directory.
func keyOf(dev uint64, path string) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(path)), dev), path...)
}

// encode returns the value of a directory.
func (d *Dir) encode(now Moment) []byte {
	size := valueHead
	for i := range d.Files {
		size += recordHead + len(d.Files[i].Name)
	}
	for i := range d.Subs {
		size += dirHead + len(d.Subs[i].Name)
	}
	data := order.AppendUint64(make([]byte, 0, size), now.Boot)
	data = order.AppendUint64(data, uint64(now.Wall))
	data = order.AppendUint64(data, uint64(now.Up))
	data = append(data, d.Tree[:]...)
	data = order.AppendUint32(data, uint32(len(d.Files)))
	data = order.AppendUint32(data, uint32(len(d.Subs)))
	for i := range d.Files {
		f := &d.Files[i]
		data = order.AppendUint64(data, f.Stamp.Ino)
		data = order.AppendUint64(data, uint64(f.Stamp.Size))
		data = order.AppendUint64(data, uint64(f.Stamp.Mtime))
		data = order.AppendUint64(data, uint64(f.Stamp.Ctime))
		data = order.AppendUint32(data, f.Stamp.Mode)
		data = append(data, f.Digest[:]...)
		data = append(append(data, byte(len(f.Name))), f.Name...)
	}
	for i := range d.Subs {
		s := &d.Subs[i]
		data = append(append(append(data, s.Digest[:]...), byte(len(s.Name))), s.Name...)
	}
	return data
}

// A Known is a remembered Dir.
type Known struct {
	dev uint64
	b   []byte // a well-formed value
}

// wellFormed checks the lengths of all records, so that later readers needn't.
func wellFormed(b []byte) bool {
	if len(b) < valueHead {
		return false
	}
	rest := b[valueHead:]
	for _, kind := range [...]struct{ count, length int }{{valueFiles, recordName}, {valueDirs, dirName}} {
		var last []byte
		for n := order.Uint32(b[kind.count:]); n > 0; n-- {
			if len(rest) <= kind.length || len(rest) <= kind.length+int(rest[kind.length]) {
				return false
			}
			r := record(rest, kind.length)
			name := r[kind.length+1:]
			if bytes.Compare(last, name) >= 0 {
				return false
			}
			last, rest = name, rest[len(r):]
		}
	}
	return len(rest) == 0
}

// record returns the first record of b, in which the name's length is at an offset.
func record(b []byte, length int) []byte { return b[:length+1+int(b[length])] }

func (k *Known) written() Moment {
	return Moment{
		Boot: order.Uint64(k.b), Wall: int64(order.Uint64(k.b[valueWall:])), Up: int64(order.Uint64(k.b[valueUp:])),
	}
}

// Tree returns the digest of the directory's tree.
func (k *Known) Tree() cas.Digest { return cas.Digest(k.b[valueTree : valueTree+cas.Size]) }

// Files returns the files, sorted by name.
func (k *Known) Files() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		b := k.b[valueHead:]
		for n := order.Uint32(k.b[valueFiles:]); n > 0; n-- {
			r := record(b, recordName)
			if !yield(Record{k.dev, r}) {
				return
			}
			b = b[len(r):]
		}
	}
}

// Subs returns the directories, sorted by name.
func (k *Known) Subs() iter.Seq[Sub] {
	return func(yield func(Sub) bool) {
		b := k.b[valueHead:]
		for r := range k.Files() {
			b = b[len(r.b):]
		}
		for len(b) > 0 {
			r := record(b, dirName)
			if !yield(Sub{Name: string(r[dirHead:]), Digest: cas.Digest(r[:cas.Size])}) {
				return
			}
			b = b[len(r):]
		}
	}
}

// matches reports whether a value describes the same directory as k. The times of writing don't count.
func (k *Known) matches(b []byte) bool {
	return k != nil && bytes.Equal(k.b[valueTree:], b[valueTree:])
}

// A Record is a remembered File. The zero Record is none.
type Record struct {
	dev uint64
	b   []byte
}

// IsZero reports whether r is the zero Record.
func (r Record) IsZero() bool { return r.b == nil }

// Name returns the name. It is part of the record's memory.
func (r Record) Name() []byte { return r.b[recordHead:] }

// Stamp returns the file's stamp.
func (r Record) Stamp() Stamp {
	return Stamp{
		Dev: r.dev, Ino: order.Uint64(r.b), Size: int64(order.Uint64(r.b[recordSize:])),
		Mode:  order.Uint32(r.b[recordMode:]),
		Mtime: int64(order.Uint64(r.b[recordMtime:])), Ctime: int64(order.Uint64(r.b[recordCtime:])),
	}
}

// Digest returns the digest of its bytes.
func (r Record) Digest() cas.Digest { return cas.Digest(r.b[recordDigest:recordName]) }
