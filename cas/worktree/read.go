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
func (m *importer) readFile(worker *worker, dir *dir, file *file) error {
	body, stamp, err := dir.f.open(file.name)
	if err != nil {
		return m.swapped(m.pathOf(dir, file.name), err)
	}
	defer body.Close()
	file.mode, file.stamp = modeFor(stamp.Mode), statcache.Stamp{}
	n, err := readSome(body, worker.buf, stamp.Size)
	if err != nil {
		return located(m.pathOf(dir, file.name), err)
	}
	if n < len(worker.buf) {
		file.size = int64(n)
		file.digest, err = m.batch.PutBytes(m.ctx, cas.Blob, worker.buf[:n])
		if m.Look != nil && err == nil {
			err = m.Look(file.path, bytes.NewReader(worker.buf[:n]))
		}
		m.progress(1, file.size)
	} else {
		err = m.stream(dir, file, io.MultiReader(bytes.NewReader(worker.buf[:n]), body), stamp.Size)
	}
	if err != nil {
		return err
	}
	m.read.Add(1)
	if m.Cache != nil {
		m.Cache.Count(0, 1)
		if file.size == stamp.Size && stamp.Dev == dir.info.dev && m.begin.Settled(stamp.Mtime, stamp.Ctime) {
			file.stamp = stamp
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
func (m *importer) stream(dir *dir, file *file, r io.Reader, size int64) error {
	streamed := &streamed{m: m, r: r, left: growth(size)}
	put := func(r io.Reader) error {
		info, err := m.batch.Put(m.ctx, cas.Blob, r)
		file.digest, file.size = info.Digest, info.Size
		return err
	}
	read := put
	if m.Look != nil {
		read = func(r io.Reader) error { return both(r, put, func(r io.Reader) error { return m.Look(file.path, r) }) }
	}
	err := read(streamed)
	if streamed.err != nil && m.ctx.Err() == nil {
		if streamed.err == errGrowing {
			return changed(m.pathOf(dir, file.name), errGrowing)
		}
		return located(m.pathOf(dir, file.name), streamed.err)
	}
	if err != nil {
		return err
	}
	m.progress(1, 0)
	return nil
}

// both runs two functions at once, and each reads all of in.
func both(in io.Reader, first, second func(r io.Reader) error) error {
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
	err := first(io.TeeReader(in, pw))
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
