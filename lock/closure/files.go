package closure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas"
)

// A treeKey identifies the files of a directory that belong to the tools in it. own is the tool's file, if the
// directory's other files don't belong to it.
type treeKey struct {
	space           *ai.Space
	dir, below, own string
}

// A madeTree holds such files in the store. They are written once for all tools of a directory.
type madeTree struct {
	once  sync.Once
	files []treeFile
	id    cas.Digest
	err   error
}

// A treeFile is a file, by its path in the space.
type treeFile struct {
	path   string
	digest cas.Digest
	size   int64
	mode   cas.Mode
}

// filesOf returns the tree of all files of a tool's directory, by their paths in the space.
func (c *closer) filesOf(ctx context.Context, it *ai.Item, tree *tree.Tree, mode cas.Mode) (cas.Digest, error) {
	anchor, err := c.Admit.Anchor(ctx, it)
	if err != nil {
		return cas.Digest{}, err
	}
	if anchor == nil {
		return cas.Digest{}, changed()
	}
	key := treeKey{space: it.Space, dir: anchor.Dir, below: anchor.Below}
	if key.below != "" {
		key.own = it.Path
	}
	own := treeFile{it.Path, it.Raw, int64(len(it.Bytes)), mode}
	c.mu.Lock()
	made, ok := c.trees[key]
	if !ok {
		made = &madeTree{}
		c.trees[key] = made
	}
	c.mu.Unlock()
	made.once.Do(func() {
		made.files = filesIn(anchor.Dir, own, tree)
		made.id, made.err = c.putFiles(ctx, it.Space, made.files)
	})
	if made.err != nil {
		return cas.Digest{}, made.err
	}
	// All tools must see the same files in the directory.
	if !same(made.files, anchor.Dir, own, tree) {
		return cas.Digest{}, changed()
	}
	return made.id, nil
}

// filesIn returns the files of a tree and the tool's own, sorted by path.
func filesIn(dir string, own treeFile, t *tree.Tree) []treeFile {
	files := make([]treeFile, 0, len(t.Files)+1)
	files = append(files, own)
	for i := range t.Files {
		f := &t.Files[i]
		files = append(files, treeFile{dir + "/" + f.Path, f.Raw, f.Size, f.Mode})
	}
	slices.SortFunc(files, func(a, b treeFile) int { return strings.Compare(a.path, b.path) })
	return files
}

// same reports whether files are those of a tree and a tool's own, without building a list: a directory may have
// hundreds of tools.
func same(files []treeFile, dir string, own treeFile, tree *tree.Tree) bool {
	if len(files) != len(tree.Files)+1 {
		return false
	}
	next, found := 0, false
	for i := range files {
		treeFile := &files[i]
		if treeFile.path == own.path {
			if found = *treeFile == own; !found {
				return false
			}
			continue
		}
		if next == len(tree.Files) {
			return false
		}
		o := &tree.Files[next]
		next++
		if len(treeFile.path) != len(dir)+1+len(o.Path) || !strings.HasSuffix(treeFile.path, o.Path) ||
			treeFile.digest != o.Raw ||
			treeFile.size != o.Size || treeFile.mode != o.Mode {
			return false
		}
	}
	return found
}

// putFiles stores files and the trees above them, and returns the tree of the space's root.
func (c *closer) putFiles(ctx context.Context, s *ai.Space, files []treeFile) (cas.Digest, error) {
	if c.Store != nil {
		for i := range files {
			if err := c.putFile(ctx, s, &files[i]); err != nil {
				return cas.Digest{}, &ai.ItemError{Space: s, Path: files[i].path, Err: err}
			}
		}
	}
	id, _, err := c.putDir(ctx, files, 0)
	return id, err
}

// wholeFile is the size up to which files are read into memory before they are stored.
const wholeFile = 256 << 10

// putFile stores a file, which must still have the signed digest.
func (c *closer) putFile(ctx context.Context, s *ai.Space, treeFile *treeFile) error {
	r, err := s.FS.Open(treeFile.path)
	if err != nil {
		return err
	}
	defer r.Close()
	in := &input{r: io.LimitReader(r, treeFile.size+1)}
	if treeFile.size > wholeFile {
		got, err := c.Store.Put(ctx, cas.Blob, in)
		switch {
		case in.err != nil:
			return in.err
		case err != nil:
			return c.fail(err)
		case got.Digest != treeFile.digest:
			return changed()
		}
		return nil
	}
	var b bytes.Buffer
	b.Grow(int(treeFile.size) + bytes.MinRead)
	if _, err := b.ReadFrom(in); err != nil {
		return err
	}
	return c.put(ctx, b.Bytes(), treeFile.digest)
}

// An input remembers the errors of reading a file, to tell them from the store's errors.
type input struct {
	r   io.Reader
	err error
}

func (in *input) Read(b []byte) (int, error) {
	n, err := in.r.Read(b)
	if err != nil && err != io.EOF {
		in.err = err
	}
	return n, err
}

// put stores bytes that must have this digest.
func (c *closer) put(ctx context.Context, b []byte, want cas.Digest) error {
	if c.Store == nil {
		return nil
	}
	if cas.Sum(b) != want {
		return changed()
	}
	got, err := c.Store.PutBytes(ctx, cas.Blob, b)
	if err == nil && got != want {
		err = fmt.Errorf("the store calls %s %s", want, got)
	}
	return c.fail(err)
}

// fail ends everything with an error that concerns no single item.
func (c *closer) fail(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		c.stop(err)
	}
	return err
}

// putDir stores the tree of the files that share the first from bytes of their paths, and returns how many files it
// took. Paths have at most 1,000 bytes, so the depth is bounded.
func (c *closer) putDir(ctx context.Context, files []treeFile, from int) (cas.Digest, int, error) {
	var entries []cas.Entry
	i := 0
	for i < len(files) && len(files[i].path) > from && files[i].path[:from] == files[0].path[:from] {
		f := &files[i]
		name, _, deeper := strings.Cut(f.path[from:], "/")
		if !deeper {
			entries = append(entries, cas.Entry{Name: path.Base(f.path), Mode: f.mode, Digest: f.digest, Size: f.size})
			i++
			continue
		}
		d, n, err := c.putDir(ctx, files[i:], from+len(name)+1)
		if err != nil {
			return cas.Digest{}, 0, err
		}
		entries = append(entries, cas.Entry{Name: name, Mode: cas.Dir, Digest: d})
		i += n
	}
	// "a.b" comes before "a/b" in a list of paths, and after "a" in a tree.
	slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
	b, err := cas.AppendTree(nil, entries)
	if err != nil {
		return cas.Digest{}, 0, err
	}
	if c.Store == nil {
		return cas.Sum(b), i, nil
	}
	d, err := c.Store.PutBytes(ctx, cas.TreeKind, b)
	return d, i, c.fail(err)
}
