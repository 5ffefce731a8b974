package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// readWhole is the size up to which a file is read into memory.
const readWhole = 256 << 10

var errGrowing = errors.New("it kept growing")

// readFile stores a file and computes its digest.
func (m *importer) readFile(w *worker, d *dir, f *file) error {
	r, s, err := d.f.open(f.name)
	if err != nil {
		return m.swapped(m.pathOf(d, f.name), err)
	}
	defer r.Close()
	f.mode, f.stamp = modeFor(s.Mode), statcache.Stamp{}
	n, err := readSome(r, w.buf, s.Size)
	if err != nil {
		return located(m.pathOf(d, f.name), err)
	}
	if n < len(w.buf) {
		f.size = int64(n)
		f.digest, err = m.batch.PutBytes(m.ctx, cas.Blob, w.buf[:n])
		if m.Look != nil && err == nil {
			err = m.Look(f.path, bytes.NewReader(w.buf[:n]))
		}
		m.progress(1, f.size)
	} else {
		err = m.stream(d, f, io.MultiReader(bytes.NewReader(w.buf[:n]), r), s.Size)
	}
	if err != nil {
		return err
	}
	m.read.Add(1)
	if m.Cache != nil {
		m.Cache.Count(0, 1)
		if f.size == s.Size && s.Dev == d.info.dev && m.begin.Settled(s.Mtime, s.Ctime) {
			f.stamp = s
		}
	}
	return nil
}

// readSome reads until the end or until buf is full. A read that brings the file's expected length without filling buf
// counts as the end.
func readSome(r io.Reader, buf []byte, size int64) (n int, err error) {
	for n < len(buf) {
		room := buf[n:]
		k, err := r.Read(room)
		n += k
		if err == io.EOF || err == nil && int64(n) == size && k < len(room) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// stream stores a long file.
func (m *importer) stream(d *dir, f *file, r io.Reader, size int64) error {
	s := &streamed{m: m, r: r, left: growth(size)}
	put := func(r io.Reader) error {
		info, err := m.batch.Put(m.ctx, cas.Blob, r)
		f.digest, f.size = info.Digest, info.Size
		return err
	}
	read := put
	if m.Look != nil {
		read = func(r io.Reader) error { return both(r, put, func(r io.Reader) error { return m.Look(f.path, r) }) }
	}
	err := read(s)
	if s.err != nil && m.ctx.Err() == nil {
		if s.err == errGrowing {
			return changed(m.pathOf(d, f.name), errGrowing)
		}
		return located(m.pathOf(d, f.name), s.err)
	}
	if err != nil {
		return err
	}
	m.progress(1, 0)
	return nil
}

// both runs two functions at once, and each reads all of r.
func both(r io.Reader, first, second func(r io.Reader) error) error {
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := second(pr)
		if err == nil {
			_, err = io.Copy(io.Discard, pr)
		}
		pr.CloseWithError(err)
		done <- err
	}()
	err := first(io.TeeReader(r, pw))
	pw.CloseWithError(err)
	return cmp.Or(err, <-done)
}

// A streamed reader can be cancelled, is bounded, and reports progress.
type streamed struct {
	m    *importer
	r    io.Reader
	left int64
	err  error // of the file, as opposed to the store
}

func (s *streamed) Read(p []byte) (int, error) {
	if s.m.ctx.Err() != nil {
		return 0, context.Cause(s.m.ctx)
	}
	if s.left <= 0 {
		s.err = errGrowing
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	s.left -= int64(n)
	if n > 0 {
		s.m.progress(0, int64(n))
	}
	return n, err
}
