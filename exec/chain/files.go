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
	bytes []byte     // nil: elsewhere
	get   cas.Getter // nil: in the space
	space *ai.Space
	path  string
	size  int64
}

// Get implements cas.Getter.
func (f *files) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	source, ok := f.at[id.Digest]
	if !ok {
		return cas.Object{}, &fs.PathError{Op: "open", Path: id.String(), Err: fs.ErrNotExist}
	}
	var r io.ReadCloser = io.NopCloser(bytes.NewReader(source.bytes))
	switch {
	case source.bytes != nil:
	case source.get != nil:
		object, err := source.get.Get(ctx, id)
		if err != nil {
			return cas.Object{}, err
		}
		r = object
	default:
		var err error
		if r, err = source.space.FS.Open(source.path); err != nil {
			return cas.Object{}, err
		}
	}
	return cas.Verify(cas.Info{ID: id, Size: source.size}, r), nil
}
