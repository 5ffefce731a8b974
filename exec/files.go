package exec

import (
	"bytes"
	"context"
	"io"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
)

// files has the files of a chain, by the digests that somebody vouches for. What a space has under a path by the time it
// is read is hashed once more: other bytes are an error, and never a file of the copy.
type files struct{ at map[cas.Digest]source }

// A source is where the bytes of a digest are.
type source struct {
	bytes []byte // nil: in the space
	space *ai.Space
	path  string
	size  int64
}

func (f *files) add(d cas.Digest, s source) { f.at[d] = s }

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
