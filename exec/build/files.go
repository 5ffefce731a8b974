package build

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
)

// Files are tree entries by their paths.
type Files map[string]cas.Entry

// same reports whether both have a path with the same bytes and mode.
func (f Files) same(o Files, path string) bool {
	a, inA := f[path]
	b, inB := o[path]
	return inA && inB && a.Digest == b.Digest && a.Mode == b.Mode
}

// tree returns the digest of the files' tree. It passes every tree in it to put, if put isn't nil, inner trees first.
func (f Files) tree(put func(b []byte) error) (cas.Digest, error) {
	return treeOf(f, slices.Sorted(maps.Keys(f)), 0, put)
}

// treeOf returns the tree of sorted paths that share their first n bytes.
func treeOf(files Files, paths []string, n int, put func(b []byte) error) (digest cas.Digest, err error) {
	var entries []cas.Entry
	for len(paths) > 0 {
		name, _, below := strings.Cut(paths[0][n:], "/")
		if !below {
			e := files[paths[0]]
			e.Name = name
			entries, paths = append(entries, e), paths[1:]
			continue
		}
		dir := paths[0][:n+len(name)+1]
		end := slices.IndexFunc(paths, func(p string) bool { return !strings.HasPrefix(p, dir) })
		if end < 0 {
			end = len(paths)
		}
		e := cas.Entry{Name: name, Mode: cas.Dir}
		if e.Digest, err = treeOf(files, paths[:end], len(dir), put); err != nil {
			return digest, err
		}
		entries, paths = append(entries, e), paths[end:]
	}
	// Paths are sorted with their "/", which "-" and "." precede.
	slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
	b, err := cas.AppendTree(nil, entries)
	if err == nil && put != nil {
		err = put(b)
	}
	return cas.Sum(b), err
}

// readFiles lists the files of a tree.
func readFiles(ctx context.Context, src cas.Getter, root cas.Digest) (Files, error) {
	f := Files{}
	err := cas.Walk(ctx, src, cas.ID{Kind: cas.TreeKind, Digest: root}, func(path string, e cas.Entry) error {
		if e.Mode != cas.Dir {
			f[path] = e
		}
		return nil
	})
	return f, err
}

// below returns the files at one of the paths, or below one.
func (f Files) below(paths []string) Files {
	out := Files{}
	for path, e := range f {
		if slices.ContainsFunc(paths, func(p string) bool { return within(path, p) }) {
			out[path] = e
		}
	}
	return out
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// A beside is a layer over a store that keeps new objects to itself.
type beside struct {
	Store
	fresh *cas.Memory
}

// Get implements cas.Getter: the layer's own objects come first.
func (b *beside) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if o, err := b.fresh.Get(ctx, id); err == nil {
		return o, nil
	}
	return b.Store.Get(ctx, id)
}

// Put implements cas.Putter.
func (b *beside) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	return b.fresh.Put(ctx, kind, r)
}

// Missing implements cas.Misser. It counts only the layer's own objects.
func (b *beside) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	return b.fresh.Missing(ctx, ids)
}

// Batch implements cas.Batcher.
func (b *beside) Batch(ctx context.Context) (cas.Batch, error) { return b.fresh.Batch(ctx) }

// Pin does nothing: new objects are in this process's memory, not in the store.
func (b *beside) Pin(context.Context, ...cas.ID) (func() error, error) {
	return func() error { return nil }, nil
}

// copy copies a tree into the underlying store. After a failure the step simply runs again next time.
func (b *beside) copy(ctx context.Context, tree cas.Digest) {
	if !tree.IsZero() {
		_, _ = cas.Copy(ctx, b.Store, b.fresh, cas.ID{Kind: cas.TreeKind, Digest: tree})
	}
}
