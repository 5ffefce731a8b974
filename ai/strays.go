package ai

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/portable"
)

// A Stray is a file that looks like an item to whoever put it there, and is none: nobody vouches for it, and nothing
// finds it. It has a line like that of a signature, or stands below tools/ with an extension that a tool has, or had.
type Stray struct {
	Kind   *model.Kind // in whose directory it is
	Path   string      // in the space
	Signed bool        // has a signature line
	Never  bool        // is none whatever it says: files with this extension aren't
}

// Strays returns the strays of a space, in the order of their paths. It leaves out files whose names say that they are
// assets, those that known tells of, such as items and the trees of tools, and what can't be read, of which Files tells.
func (v *View) Strays(ctx context.Context, s *Space, known func(p string) bool) ([]Stray, error) {
	var all []Stray
	for _, k := range v.kinds {
		err := fs.WalkDir(s.FS, k.Dir, func(p string, e fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil || p == k.Dir {
				return nil
			}
			if name := path.Base(p); portable.Droppings(name) || model.IsAsset(name) {
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if !e.Type().IsRegular() || known(p) {
				return nil
			}
			if f, ok := s.stray(k, p); ok {
				all = append(all, f)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Stray) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return all, nil
}

// stray looks at a file that isn't known.
func (s *Space) stray(k *model.Kind, p string) (Stray, bool) {
	ext := path.Ext(p)
	f := Stray{Kind: k, Path: p, Never: !slices.Contains(k.Extensions, ext)}
	if f.Never && !slices.Contains(neverItems[:], ext) {
		return f, false // an asset, in whatever language
	}
	b, err := s.read(p)
	if err != nil || !f.Never && k.Marked(p, b) {
		return f, false
	}
	f.Signed = hasSignatureLine(b)
	return f, f.Signed || k.Name == "tool"
}

// hasSignatureLine reports whether a file has a line that a signature line looks like in any language: the words with
// nothing but a mark of a comment before them.
func hasSignatureLine(file []byte) bool {
	word := []byte("rye:signed:")
	for rest := file; ; {
		i := bytes.Index(rest, word)
		if i < 0 {
			return false
		}
		before := rest[bytes.LastIndexByte(rest[:i], '\n')+1 : i]
		if len(before) < 16 && !bytes.ContainsFunc(before, func(r rune) bool {
			return r >= 0x80 || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '`'
		}) {
			return true
		}
		rest = rest[i+len(word):]
	}
}
