package sink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

// A file appends bytes, or lines, to a file.
type file struct {
	f     *os.File
	to    io.Writer // f, except in tests
	lines *splitter // nil: bytes
	err   error     // the first error; nothing is written after it
}

func openFile(target Target) (_ *file, err error) {
	handle, err := os.OpenFile(target.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			handle.Close()
		}
	}()
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: target.Path, Err: errors.New("not a regular file")}
	}
	switch free, err := osfile.TryLock(handle, osfile.Exclusive); {
	case err != nil:
		return nil, err
	case !free:
		return nil, fault.Wrap(osfile.Busy(target.Path, 0), "%q is in use: another call writes to it", target.Path)
	}
	s := &file{f: handle, to: handle}
	if target.Kind == Lines {
		s.lines = new(splitter)
		return s, s.whole()
	}
	return s, nil
}

// whole ensures that the file ends with a newline. It appends one to a last line that lacks nothing else.
func (s *file) whole() error {
	size, err := s.f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	tail := make([]byte, min(size, MaxLine+1))
	if _, err := s.f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return err
	}
	if tail[len(tail)-1] == '\n' {
		return nil
	}
	last := tail[bytes.LastIndexByte(tail, '\n')+1:]
	if _, err := jcs.Parse(last); err != nil || len(last) > MaxLine {
		path, whole := s.f.Name(), size-int64(len(last))
		return fault.New(fault.Parsing, "the last line of %q is incomplete", path).On("path", path).On("size", whole).
			Try(fmt.Sprintf("truncate -s %d %s", whole, fault.Quote(path)))
	}
	return s.line(nil)
}

// Emit implements primitive.Sink.
func (s *file) Emit(stream primitive.Stream, b []byte) error {
	if stream != primitive.Stdout || s.err != nil {
		return s.err
	}
	if s.lines == nil {
		_, s.err = s.to.Write(b)
	} else {
		s.err = s.lines.feed(b, s.line)
	}
	return s.err
}

// line writes a complete line, or nothing.
func (s *file) line(b []byte) error {
	n, err := s.to.Write(append(b, '\n'))
	if err == nil || n == 0 {
		return err
	}
	size, at := s.f.Seek(0, io.SeekEnd)
	if at == nil {
		at = s.f.Truncate(size - int64(n))
	}
	return errors.Join(err, at)
}

// Close implements Sink.
func (s *file) Close() error {
	if s.lines != nil && s.err == nil {
		s.err = s.lines.end(s.line)
	}
	return errors.Join(s.err, s.f.Sync(), s.f.Close())
}
