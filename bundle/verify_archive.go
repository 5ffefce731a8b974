package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// InArchive is a bundle in an archive, which is read once, to its end.
func InArchive(r io.Reader) Source { return inArchive{r} }

type inArchive struct{ r io.Reader }

func (a inArchive) look(ctx context.Context, o *VerifyOptions, use func(*look) error) error {
	s := &spool{dir: o.TempDir, parts: o.Parts != nil, at: map[cas.Digest]span{}, failed: map[string]*Failure{},
		bad: map[cas.Digest]error{}, scripts: map[string]string{}}
	defer s.close()
	l := &look{getter: s, check: s.check, scripts: s.scripts}
	_, err := archive.Read(ctx, a.r, s)
	if s.bundle != nil {
		l.bundle = s.bundle
	}
	if bad, ok := errors.AsType[*archive.Error](err); ok {
		l.failures = []*Failure{{Check: CheckArchive, Err: bad}}
	} else if err != nil {
		return err
	}
	return use(l)
}

// A spool stores the parts of an archive that are needed more than once: items, their other files, evidence, and all
// files of a plugin, whose items are compared with them. It uses memory for small bundles, else a temporary file,
// without a name where the system allows it.
type spool struct {
	dir     string
	parts   bool // VerifyOptions.Parts is there
	bundle  *Bundle
	mem     []byte
	file    *os.File
	end     int64
	at      map[cas.Digest]span
	seen    int                  // number of files read
	failed  map[string]*Failure  // by path, of files
	scripts map[string]string    // as in look
	bad     map[cas.Digest]error // errors of files that should have had these bytes
}

type span struct{ off, size int64 }

// inMemory is how many bytes stay in memory.
const inMemory = 4 << 20

// Begin implements archive.Sink.
func (s *spool) Begin(h *archive.Head) error {
	s.bundle = &Bundle{FileList: h.List, Files: h.Files}
	var kept int64
	for i := range h.Files {
		if f := &h.Files[i]; s.wants(f.Path, false) {
			kept += f.Size
		}
	}
	for i := range h.List.Evidence {
		kept += h.List.Evidence[i].Size
	}
	if kept <= inMemory {
		s.mem = make([]byte, 0, kept)
		return nil
	}
	f, err := os.CreateTemp(s.dir, ".rye-tmp-verify-*")
	if err != nil {
		return err
	}
	s.file = f
	os.Remove(f.Name()) // close removes it on systems that can't remove an open file
	return nil
}

func (s *spool) wants(path string, evidence bool) bool {
	_, item := s.bundle.Layout().In(path)
	return evidence || item || s.parts && s.bundle.Plugin != ""
}

// File implements archive.Sink.
func (s *spool) File(entry archive.Entry, r io.Reader) error {
	from := s.end
	var out io.Writer = s
	if _, have := s.at[entry.Digest]; have || !s.wants(entry.Path, entry.Evidence) {
		out = io.Discard
	}
	first := make([]byte, longestLine)
	n, err := io.ReadFull(r, first)
	if err == nil || err == io.ErrUnexpectedEOF || err == io.EOF {
		if _, err = out.Write(first[:n]); err == nil {
			_, err = io.Copy(out, r)
		}
	}
	if line := scriptLine(first[:n]); line != "" && !entry.Evidence {
		s.scripts[entry.Path] = line
	}
	if failure := damage(entry.Digest, err); failure != nil {
		if failure.Check != CheckDigest {
			return err
		}
		s.end = from
		if s.file == nil {
			s.mem = s.mem[:from]
		}
		s.bad[entry.Digest] = err
		if !entry.Evidence {
			s.failed[entry.Path] = failure
		}
	} else if out == io.Writer(s) {
		s.at[entry.Digest] = span{from, entry.Size}
	}
	s.seen++
	return nil
}

// Write appends bytes.
func (s *spool) Write(b []byte) (n int, err error) {
	if s.file == nil {
		s.mem, n = append(s.mem, b...), len(b)
	} else {
		n, err = s.file.WriteAt(b, s.end)
	}
	s.end += int64(n)
	return n, err
}

// Get implements cas.Getter.
func (s *spool) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	at, ok := s.at[id.Digest]
	if err := s.bad[id.Digest]; err != nil && !ok {
		return cas.Object{}, err
	}
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	var r io.ReaderAt = s.file
	if s.file == nil {
		r = bytes.NewReader(s.mem)
	}
	return cas.Verify(cas.Info{ID: id, Size: at.size}, io.NopCloser(io.NewSectionReader(r, at.off, at.size))), nil
}

// check returns the failure that was found when the file was read.
func (s *spool) check(_ context.Context, f *manifest.File, _ bool) *Failure {
	if failure := s.failed[f.Path]; failure != nil {
		return failure
	}
	// Files arrive sorted by path, so the missing ones are at the end.
	if s.seen < len(s.bundle.Files) && f.Path >= s.bundle.Files[s.seen].Path {
		return &Failure{Check: CheckMissing, Expected: f.Digest.String(), Err: errCutOff}
	}
	return nil
}

var errCutOff = errors.New("the archive is unreadable before this file")

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
