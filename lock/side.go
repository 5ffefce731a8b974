package lock

import (
	"context"
	"errors"
	"io"
	"path"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// NewSide makes a side of a parsed lock. It leaves out inconsistent and missing parts; comparing reports them where
// they matter. An error is the context's.
func NewSide(ctx context.Context, l *file.Lock, id cas.Digest, o SetOptions) (*Side, error) {
	a, err := assemble(ctx, l, id, o)
	if err != nil {
		return nil, err
	}
	return a.Side, nil
}

// view returns a view of the side. Signatures aren't verified, so only the library's extractors count.
func (s *Side) view(ctx context.Context) (*ai.View, error) {
	return ai.NewView(ctx, ai.Options{Spaces: s.spaces})
}

var errNoBytes = errors.New("object not found in the store, .ai/vendor, or any source")

// item reads a pinned item.
func (s *Side) item(ctx context.Context, v *ai.View, ref model.Ref) (*ai.Item, error) {
	at := s.places[ref]
	space := s.Space(at.space)
	if space == nil {
		return nil, errNoBytes
	}
	f, err := v.At(space, at.path)
	if err != nil {
		return nil, err
	}
	it, err := v.Load(ctx, f)
	if err != nil {
		return nil, err
	}
	return it, s.match(s.lock.Pin(ref), it)
}

// A libraryGetter adds the binary's files to another getter.
type libraryGetter struct {
	cas.Getter
	std   *ai.Space
	paths map[cas.Digest]string
}

func (l libraryGetter) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	name, ok := l.paths[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return l.Getter.Get(ctx, id)
	}
	f, err := l.std.FS.Open(name)
	if err != nil {
		return cas.Object{}, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: info.Size()}, io.ReadCloser(f)), nil
}

// getter returns a getter for all files of the side.
func (s *Side) getter() cas.Getter {
	l := libraryGetter{s.get, s.std, map[cas.Digest]string{}}
	for ref, at := range s.places {
		if at.space == file.FromStd {
			l.paths[s.lock.Pin(ref).Digest] = path.Clean(at.path)
		}
	}
	return l
}

// Lock returns the lock. Callers must not change it.
func (s *Side) Lock() *file.Lock { return s.lock }

// Tree returns the files of a tree that a pin names.
func (s *Side) Tree(files cas.Digest) []manifest.File {
	if d := s.trees[files]; d != nil {
		return d.files
	}
	return nil
}

// Space returns the space of a label with the files of its pins, or nil if it has no pins. Reading an unavailable
// file returns an error.
func (s *Side) Space(label string) *ai.Space {
	for _, at := range s.spaces {
		if at.Label == label {
			return at
		}
	}
	return nil
}
