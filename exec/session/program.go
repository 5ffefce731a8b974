package session

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A Program is a Starlark item that rye itself chooses, with the files that it may load.
type Program struct {
	*ai.Item
	Files map[string]string // by their paths below the item's directory, its own included
	Main  string            // its own
}

// maxProgram limits the files of a program, in bytes.
const maxProgram = 4 << 20

// Program returns a Starlark item as Chosen does, with the Starlark files of its tree.
func (s *Session) Program(ctx context.Context, ref model.Ref) (*Program, error) {
	from, err := s.chosen(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer from.close()
	it, err := from.item(ctx, ref)
	if err != nil {
		return nil, err
	}
	if path.Ext(it.Path) != starlarkExt {
		return nil, &ai.ItemError{Ref: ref, Space: it.Space, Path: it.Path,
			Err: fault.New(fault.Validation, "rye runs this item itself: it must be Starlark")}
	}
	p := &Program{Item: it, Main: path.Base(it.Path)}
	p.Files = map[string]string{p.Main: string(it.Bytes)}
	return p, from.siblings(ctx, p)
}

const starlarkExt = ".star"

// siblings adds the Starlark files of the item's tree, which its signature covers.
func (f source) siblings(ctx context.Context, program *Program) error {
	tree, err := f.base.Admit.Tree(ctx, program.Item)
	if err != nil || tree == nil {
		return err
	}
	anchor, err := f.base.Admit.Anchor(ctx, program.Item)
	if err != nil {
		return err
	}
	delete(program.Files, program.Main)
	program.Main = strings.TrimPrefix(program.Path, anchor.Dir+"/")
	program.Files[program.Main] = string(program.Bytes)
	size := int64(len(program.Bytes))
	for i := range tree.Files {
		part := &tree.Files[i]
		if path.Ext(part.Path) != starlarkExt {
			continue
		}
		at := path.Join(anchor.Dir, part.Path)
		bad := func(err error) error {
			return &ai.ItemError{Ref: program.Ref, Space: program.Space, Path: at, Err: err}
		}
		if size += part.Size; size > maxProgram {
			return bad(fault.New(fault.Limit, "the files of %q have more than %d bytes", program.Ref, maxProgram))
		}
		b, err := fs.ReadFile(program.Space.FS, at)
		if err != nil {
			return bad(err)
		}
		if cas.Sum(b) != part.Raw {
			return bad(fault.New(fault.Integrity, "the file changed while it was read"))
		}
		program.Files[part.Path] = string(b)
	}
	return nil
}
