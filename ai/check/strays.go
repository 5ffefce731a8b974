// Package check finds what is wrong with items before they are signed or run.
package check

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/portable"
)

// A Stray is a file that looks like an item but isn't one, so no signature covers it and no command finds it. It has a
// line like a signature's, or is below tools/ with an extension that tools have or had.
type Stray struct {
	Kind   *model.Kind // in whose directory it is
	Path   string      // in the space
	Signed bool        // has a signature line
	Never  bool        // is none whatever it says: files with this extension aren't
}

// Strays returns the strays of a space, sorted by path. It skips assets by name, known files such as items and the trees
// of tools, and files that can't be read, which View.Files reports.
func Strays(ctx context.Context, v *ai.View, s *ai.Space, known func(p string) bool) ([]Stray, error) {
	var all []Stray
	for _, k := range v.Kinds() {
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
			if f, ok := stray(s, k, p); ok {
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

// stray reports whether a file is a stray.
func stray(s *ai.Space, k *model.Kind, p string) (Stray, bool) {
	ext := path.Ext(p)
	f := Stray{Kind: k, Path: p, Never: !slices.Contains(k.Extensions, ext)}
	if f.Never && !slices.Contains(ai.NeverItems, ext) {
		return f, false // an asset, in whatever language
	}
	b, err := s.Read(p)
	if err != nil || !f.Never && k.Marked(p, b) {
		return f, false
	}
	f.Signed = hasSignatureLine(b)
	return f, f.Signed || k.Name == "tool"
}

// hasSignatureLine reports whether a file has a line like a signature's in any language: the words, with at most a
// comment marker before them.
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
