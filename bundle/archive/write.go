package archive

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// Files of up to wholeFile bytes are read in lots, which a store that is a cas.Visitor can read in its own order.
const (
	wholeFile   = 256 << 10
	windowBytes = 2 << 20
	windowFiles = 1 << 10
)

// FileName is the name of the file that an archive gets if its maker gives none.
func FileName(id, version string) string {
	return strings.ReplaceAll(id, "/", "-") + "-" + version + ".tar.zst"
}

// Write writes the archive of a manifest and its signatures, with the files from src and those of the keys that
// signed. body has no signature lines. The same arguments give the same bytes. After an error, w has received no
// valid archive.
func Write(ctx context.Context, w io.Writer, body []byte, signatures manifest.Signatures, src cas.Getter,
	keys ...manifest.SignerKey) error {
	head, err := newHead(body, signatures)
	if err == nil {
		err = head.fits()
	}
	if err != nil {
		return err
	}
	// The number of encoders is fixed, so that the bytes don't depend on the machine.
	encoder, err := zstd.NewWriter(w, zstd.WithEncoderCRC(true), zstd.WithWindowSize(encoderWindow),
		zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	p := &writer{ctx: ctx, z: encoder, src: src, buf: make([]byte, 64<<10)}
	p.lot.buf = make([]byte, 0, windowBytes)
	head.Keys = keys
	if err := p.all(head); err != nil {
		encoder.Reset(nil) // ends its goroutines
		return err
	}
	return encoder.Close()
}

// encoderWindow is the window that Write uses, half of the largest that readers accept.
const encoderWindow = 4 << 20

type writer struct {
	ctx    context.Context
	z      *zstd.Encoder
	src    cas.Getter
	header []byte
	buf    []byte
	lot    lot
}

// A lot is a group of small files that are read together.
type lot struct {
	entries []Entry
	ids     []cas.ID
	from    []int // offset of each file in buf
	buf     []byte
}

func (p *writer) all(head *Head) error {
	if err := p.bytes(manifestName, head.Body); err != nil {
		return err
	}
	if err := p.bytes(signaturesName, head.List.Signatures.Append(nil)); err != nil {
		return err
	}
	if keys := manifest.AppendSignerKeys(nil, head.List.Signatures, head.Keys); len(keys) > 0 {
		if err := p.bytes(keysName, keys); err != nil {
			return err
		}
	}
	for i := range head.entries() {
		entry := head.entry(i)
		if entry.Size > wholeFile || len(p.lot.entries) == windowFiles ||
			int64(len(p.lot.buf))+entry.Size > windowBytes {
			if err := p.flush(); err != nil {
				return err
			}
		}
		if entry.Size > wholeFile {
			if err := p.stream(entry); err != nil {
				return err
			}
			continue
		}
		p.lot.add(entry)
	}
	if err := p.flush(); err != nil {
		return err
	}
	_, err := p.z.Write(zeros[:])
	return err
}

func (p *writer) head(name string, mode cas.Mode, size int64) error {
	p.header = appendHeader(p.header[:0], name, mode, size)
	_, err := p.z.Write(p.header)
	return err
}

func (p *writer) pad(size int64) error {
	_, err := p.z.Write(zeros[:padding(size)])
	return err
}

func (p *writer) bytes(name string, b []byte) error {
	return p.entry(name, cas.File, b)
}

func (p *writer) entry(name string, mode cas.Mode, b []byte) error {
	if err := p.head(name, mode, int64(len(b))); err != nil {
		return err
	}
	if _, err := p.z.Write(b); err != nil {
		return err
	}
	return p.pad(int64(len(b)))
}

// stream writes a large file.
func (p *writer) stream(entry Entry) error {
	object, err := p.src.Get(p.ctx, cas.ID{Kind: cas.Blob, Digest: entry.Digest})
	if err != nil {
		return missing(entry, err)
	}
	defer object.Close()
	if object.Size != entry.Size {
		return missing(entry, otherSize(entry.Size, object.Size))
	}
	if err := p.head(entry.name(), entry.Mode, entry.Size); err != nil {
		return err
	}
	if err := p.copyAll(object); err != nil {
		return missing(entry, err)
	}
	return p.pad(entry.Size)
}

func (p *writer) copyAll(o cas.Object) error {
	for {
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		n, err := o.Read(p.buf)
		if _, err := p.z.Write(p.buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func missing(e Entry, err error) error { return fmt.Errorf("%+q: %w", e.Path, err) }

func (l *lot) add(e Entry) {
	l.entries = append(l.entries, e)
	l.ids = append(l.ids, cas.ID{Kind: cas.Blob, Digest: e.Digest})
	l.from = append(l.from, len(l.buf))
	l.buf = l.buf[:int64(len(l.buf))+e.Size]
}

func (l *lot) content(i int) []byte { return l.buf[l.from[i] : int64(l.from[i])+l.entries[i].Size] }

// flush reads the files of the lot and writes them.
func (p *writer) flush() error {
	lot := &p.lot
	fill := func(i int, o cas.Object) error {
		err := readAll(o, lot.content(i))
		if err != nil {
			return missing(lot.entries[i], err)
		}
		return nil
	}
	if err := p.get(fill); err != nil {
		return err
	}
	for i, e := range lot.entries {
		if err := p.entry(e.name(), e.Mode, lot.content(i)); err != nil {
			return err
		}
	}
	lot.entries, lot.ids, lot.from, lot.buf = lot.entries[:0], lot.ids[:0], lot.from[:0], lot.buf[:0]
	return context.Cause(p.ctx)
}

// get passes each object of the lot to fill.
func (p *writer) get(fill func(int, cas.Object) error) error {
	l := &p.lot
	if v, ok := p.src.(cas.Visitor); ok && len(l.ids) > 1 {
		return v.Visit(p.ctx, l.ids, fill)
	}
	for i, id := range l.ids {
		o, err := p.src.Get(p.ctx, id)
		if err != nil {
			return missing(l.entries[i], err)
		}
		err = fill(i, o)
		if closing := o.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readAll reads an object that must have exactly len(b) bytes.
func readAll(o cas.Object, b []byte) error {
	if o.Size != int64(len(b)) {
		return otherSize(int64(len(b)), o.Size)
	}
	if _, err := io.ReadFull(o, b); err != nil && len(b) > 0 {
		return err
	}
	// Only the object's end proves its bytes.
	var more [1]byte
	if n, err := o.Read(more[:]); n > 0 || err != io.EOF {
		if err == nil || err == io.EOF {
			err = cas.ErrTooLong
		}
		return err
	}
	return nil
}

// otherSize returns the error for a file whose size differs from the manifest although its digest is right.
func otherSize(want, found int64) error {
	return fmt.Errorf("the manifest says %d bytes, found %d", want, found)
}
