package chain

import (
	"bytes"
	"context"
	"io"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
)

// files reads the files of a chain by their admitted digests. It hashes the bytes again while reading, so that a file
// that has changed is an error.
type files struct{ at map[cas.Digest]source }

// A source is the place of a digest's bytes.
type source struct {
	bytes []byte // nil: in the space
	space *ai.Space
	path  string
	size  int64
}

// Get implements cas.Getter.
func (f *files) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	s, ok := f.at[id.Digest]
	if !ok {
		return cas.Object{}, &fs.PathError{Op: "open", Path: id.String(), Err: fs.ErrNotExist}
	}
	var r io.ReadCloser = io.NopCloser(bytes.NewReader(s.bytes))
	if s.bytes == nil {
		var err error
		if r, err = s.space.FS.Open(s.path); err != nil {
			return cas.Object{}, err
		}
	}
	return cas.Verify(cas.Info{ID: id, Size: s.size}, r), nil
}
