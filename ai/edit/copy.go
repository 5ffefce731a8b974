package edit

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
)

// A part is one file to copy.
type part struct {
	path string // in both spaces
	read func() ([]byte, error)
	mode fs.FileMode
}

// A Copy is a planned copy of an item and its tree to another space.
type Copy struct {
	to      *ai.Space
	it      *ai.Item
	missing []part // with the item last
}

// Files returns the files that the other space lacks.
func (c *Copy) Files() []string {
	all := make([]string, len(c.missing))
	for i := range c.missing {
		all[i] = c.missing[i].path
	}
	return all
}

// PlanCopy returns a plan to copy an item to a space, or the reason why it can't be copied. remove returns the
// command that removes a file of the space.
func (e *Editor) PlanCopy(ctx context.Context, it *ai.Item, t *tree.Tree, to *ai.Space,
	remove func(p string) string) (*Copy, error) {
	if err := e.checkRoom(ctx, it, to, remove); err != nil {
		return nil, err
	}
	parts, err := e.parts(ctx, it, t)
	if err != nil {
		return nil, err
	}
	c := &Copy{to: to, it: it}
	if c.missing, err = missing(parts, to, remove); err != nil {
		return nil, err
	}
	return c, e.checkTree(it, parts, to)
}

// Copy carries out a plan. The item is written last.
func (e *Editor) Copy(ctx context.Context, c *Copy) error {
	folder, err := OpenDir(c.to.Dir, c.to.Level)
	if err != nil {
		return err
	}
	defer folder.Close()
	osfile.Sweep(folder.Where(path.Dir(c.it.Path)), e.Now())
	for _, p := range c.missing {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := p.read()
		if err == nil {
			err = folder.Write(p.path, p.mode, true, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRoom refuses a space that has the id in another file, or in another case.
func (e *Editor) checkRoom(ctx context.Context, it *ai.Item, to *ai.Space, remove func(p string) string) error {
	dir := path.Dir(it.Path)
	if err := e.CheckFolders(to, dir); err != nil {
		return err
	}
	entries, err := fs.ReadDir(to.FS, dir)
	if err != nil {
		return nil // it doesn't exist yet, or writing to it says why it can't
	}
	for _, entry := range entries {
		p := path.Join(dir, entry.Name())
		ref, err := it.Kind.RefOf(p)
		if err != nil || p == it.Path || portable.Fold(ref.ID) != portable.Fold(it.ID) {
			continue
		}
		f := fileOf(it.Kind, ref, to, p)
		if _, err := e.Load(ctx, f); err == nil {
			return e.taken(f, remove(p))
		}
	}
	return nil
}

// parts returns the files of an item, the item last. Their bytes match the hashes.
func (e *Editor) parts(ctx context.Context, it *ai.Item, t *tree.Tree) ([]part, error) {
	var all []part
	if t != nil {
		anchor, err := e.Admit.Anchor(ctx, it)
		if err != nil {
			return nil, err
		}
		for _, f := range t.Files {
			name := path.Join(anchor.Dir, f.Path)
			all = append(all, part{name, func() ([]byte, error) {
				return treeFile(it.Space, name, f.Raw)
			}, Mode(f.Mode.String() == "exec")})
		}
	}
	fi, err := fs.Lstat(it.Space.FS, it.Path)
	if err != nil {
		return nil, err
	}
	executable := fi.Mode().Perm()&0o100 != 0 // files of the library have no executable bit
	return append(all, part{it.Path, func() ([]byte, error) { return it.Bytes, nil }, Mode(executable)}), nil
}

// missing returns the parts that a space lacks; an existing file with other bytes is an error.
func missing(parts []part, to *ai.Space, remove func(p string) string) ([]part, error) {
	folder, err := osfile.OpenDir(to.Dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return parts, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	var missing []part
	for _, part := range parts {
		b, err := part.read()
		if err != nil {
			return nil, err
		}
		same, err := sameBytes(folder, part.path, b)
		if f, ok := errors.AsType[*fault.Error](err); ok && errors.Is(f.Err, fs.ErrExist) {
			own := parts[len(parts)-1].path // removing the item removes its tree
			if _, gone := fs.Lstat(to.FS, own); gone == nil {
				f.Hint = []string{remove(own)}
			}
		}
		if err != nil {
			return nil, err
		}
		if !same {
			missing = append(missing, part)
		}
	}
	return missing, nil
}

// checkTree refuses a place where other files would become part of the item's tree and invalidate its signature.
func (e *Editor) checkTree(it *ai.Item, parts []part, to *ai.Space) error {
	if len(parts) == 1 {
		return nil // no tree: Disturbed reports the tools that it affects
	}
	known := map[string]bool{}
	for _, p := range parts {
		known[p.path] = true
	}
	return fs.WalkDir(to.FS, path.Dir(it.Path), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !entry.IsDir() && !known[name]:
			place := e.Name(to, name)
			return fault.New(fault.Validation, "%q would become part of %s and invalidate its signature", place,
				it.Ref).
				On("reason", "tree").On("ref", it.Ref.String()).On("file", place)
		}
		return nil
	})
}
