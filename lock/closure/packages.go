package closure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/packages"
)

// badList is the error for a list of packages that rye can't use. path is as the tool names it.
func badList(path, reason string) error {
	return fault.New(fault.Validation, "the list of packages %q %s", path, reason).On("list",
		path).Try("rye docs packages")
}

// An InListError is an error in a list of packages.
type InListError struct {
	Path string // of the list, in the tool's space
	Line int    // 0 for the whole list
	Err  error
}

func (e *InListError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%q: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%q: line %d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the underlying error.
func (e *InListError) Unwrap() error { return e.Err }

// ListOf reads the list of packages that a tool names, or returns nil if it names none. The list must be one of the
// tool's files. An error in the list is an *InListError.
func ListOf(ctx context.Context, admit *ai.Admitter, it *ai.Item, t *tree.Tree) (*List, error) {
	if it.Model.Tool == nil || it.Model.Tool.Packages == "" {
		return nil, nil
	}
	name := it.Model.Tool.Packages
	_, read := packages.For(name)
	if read == nil {
		return nil, badList(name, "has an unknown name: expected …requirements.txt or package-lock.json")
	}
	anchor, err := admit.Anchor(ctx, it)
	if err != nil {
		return nil, err
	}
	if anchor == nil {
		return nil, badList(name,
			"needs a directory that belongs to the tool: add anchor: {enabled: true, mode: always}")
	}
	treeFile := inTree(anchor, t, path.Join(path.Dir(it.Path), name))
	if treeFile == nil {
		return nil, badList(name, "is missing from the tool's directory")
	}
	b, err := treeFile.read(it.Space)
	if err != nil {
		return nil, &InListError{treeFile.path, 0, err}
	}
	list, err := read(bytes.NewReader(b))
	if own, ok := errors.AsType[*packages.Error](err); ok {
		told := *own
		told.Line = 0 // the path has the line already
		return nil, &InListError{treeFile.path, own.Line, &told}
	}
	return &List{Tool: it.Ref, Path: treeFile.path, Packages: list}, err
}

// packages reads the list of packages that a tool names, and reports whether it is valid.
func (c *closer) packages(ctx context.Context, n *node, it *ai.Item, a *ai.Admission) bool {
	list, err := ListOf(ctx, c.Admit, it, a.Tree)
	n.list = list
	if err == nil {
		return true
	}
	if in, ok := errors.AsType[*InListError](err); ok {
		p := &Problem{Ref: it.Ref, Space: it.Space, Path: in.Path, Err: in.Err}
		if in.Line > 0 {
			p.At = value.Pos{Line: in.Line, Column: 1}
		}
		n.problems = append(n.problems, p)
		return false
	}
	n.problem(it.Model.Fields.Get("packages").At, "packages", err)
	return false
}

// inTree returns one of a tool's files by its path in the space, or nil if it is missing.
func inTree(anchor *ai.Anchor, t *tree.Tree, name string) *treeFile {
	if t == nil {
		return nil
	}
	for i := range t.Files {
		if f := &t.Files[i]; path.Join(anchor.Dir, f.Path) == name {
			return &treeFile{name, f.Raw, f.Size, f.Mode}
		}
	}
	return nil
}

// read reads a small file, which must still have the signed digest.
func (f *treeFile) read(s *ai.Space) ([]byte, error) {
	r, err := s.FS.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, min(f.size, packages.MaxBytes)+1))
	if err == nil && int64(len(b)) <= packages.MaxBytes && cas.Sum(b) != f.digest {
		err = changed()
	}
	return b, err
}
