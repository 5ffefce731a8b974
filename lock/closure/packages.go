package closure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/packages"
)

// packages reads the list of packages that a tool names, and reports whether nothing is wrong with it.
func (c *closer) packages(ctx context.Context, n *node, it *ai.Item, a *ai.Admission) bool {
	if it.Model.Tool == nil || it.Model.Tool.Packages == "" {
		return true
	}
	name := it.Model.Tool.Packages
	at := it.Model.Fields.Get("packages").At
	fail := func(err error) bool {
		n.problem(at, "packages", err)
		return false
	}
	_, read := packages.For(name)
	if read == nil {
		return fail(&ListError{name, "is called like none: expected …requirements.txt or package-lock.json"})
	}
	f, err := c.inTree(ctx, it, a.Tree, path.Join(path.Dir(it.Path), name))
	if err != nil {
		return fail(err)
	}
	if f == nil {
		return fail(&ListError{name, "isn't among the files that come with the tool"})
	}
	b, err := f.read(it.Space)
	var list []packages.Package
	if err == nil {
		list, err = read(bytes.NewReader(b))
	}
	if err != nil {
		p := &Problem{Ref: it.Ref, Space: it.Space, Path: f.path, Err: err}
		if own, ok := errors.AsType[*packages.Error](err); ok && own.Line > 0 {
			told := *own
			told.Line = 0
			p.At, p.Err = value.Pos{Line: own.Line, Column: 1}, &told
		}
		n.problems = append(n.problems, p)
		return false
	}
	n.list = &List{Tool: it.Ref, Path: f.path, Packages: list}
	return true
}

// inTree returns a file that comes with a tool, by its path in the space; nil if there is none.
func (c *closer) inTree(ctx context.Context, it *ai.Item, t *tree.Tree, name string) (*treeFile, error) {
	if t == nil {
		return nil, nil
	}
	anchor, err := c.Admit.Anchor(ctx, it)
	if err != nil || anchor == nil {
		return nil, err
	}
	for i := range t.Files {
		if f := &t.Files[i]; path.Join(anchor.Dir, f.Path) == name {
			return &treeFile{name, f.Raw, f.Size, f.Mode}, nil
		}
	}
	return nil, nil
}

// read reads a small file, which must still be the one that was signed.
func (f *treeFile) read(s *ai.Space) ([]byte, error) {
	r, err := s.FS.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, min(f.size, packages.MaxBytes)+1))
	if err == nil && int64(len(b)) <= packages.MaxBytes && cas.Sum(b) != f.digest {
		err = ErrChanged
	}
	return b, err
}
