package catalog

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// A Beside is a file that the signature of a server's item covers.
type Beside struct {
	Path  string // in the space
	Bytes []byte
}

// Install writes items that were made on a stage to a space, all or none: the files that the server's item covers
// first, then that, so that an interruption leaves a server with fewer tools, which a refresh finds. Each item either
// replaces the file that was looked at before, or is new.
func Install(ctx context.Context, space *ai.Space, beside []Beside, all []*ai.Item, replaced map[string]*ai.Item,
	now time.Time) error {
	dir, err := edit.OpenDir(space.Dir, space.Level)
	if err != nil {
		return err
	}
	defer dir.Close()
	batch := osfile.NewBatch(len(beside)+len(all), now)
	batch.Ordered = true
	staged := make([]*osfile.Staged, 0, len(beside)+len(all))
	for _, f := range beside {
		st, err := batch.Stage(dir, f.Path, nil, edit.Mode(false), osfile.BytesOf(f.Bytes))
		if err != nil {
			batch.Drop(staged)
			return err
		}
		staged = append(staged, st)
	}
	for _, it := range all {
		var before fs.FileInfo
		place := it.Path
		if old := replaced[it.Ref.String()]; old != nil {
			place = old.Path
			if before, err = unchanged(old); err != nil {
				batch.Drop(staged)
				return err
			}
		}
		st, err := batch.Stage(dir, place, before, edit.Mode(false), osfile.BytesOf(it.Bytes))
		if err != nil {
			batch.Drop(staged)
			return err
		}
		staged = append(staged, st)
	}
	err = batch.Commit(ctx, staged)
	if err == nil {
		return nil
	}
	// What is new goes again; what was replaced is good as it is.
	for _, st := range staged {
		if st.Placed() && st.IsNew() {
			err = errors.Join(err, dir.Remove(st.Name))
		}
	}
	return err
}

// unchanged returns what describes the file of an item, which must be the one that was read.
func unchanged(it *ai.Item) (fs.FileInfo, error) {
	info, err := fs.Stat(it.Space.FS, it.Path)
	if err != nil {
		return nil, err
	}
	b, err := fs.ReadFile(it.Space.FS, it.Path)
	if err == nil && string(b) != string(it.Bytes) {
		err = fault.New(fault.Conflict, "%s changed while it was worked on, and was left as it is", it.Ref).On("ref",
			it.Ref.String())
	}
	return info, err
}

// RemoveLib removes the files that the signature of a server's item covers.
func RemoveLib(ctx context.Context, e *edit.Editor, server *Server) error {
	if server.Spec == nil || server.Spec.Lib == "" {
		return nil
	}
	tree, err := e.Admit.Tree(ctx, server.Item)
	if err != nil || tree == nil {
		return err
	}
	anchor, err := e.Admit.Anchor(ctx, server.Item)
	if err != nil {
		return err
	}
	dir, err := edit.OpenDir(server.Item.Space.Dir, server.Item.Space.Level)
	if err != nil {
		return err
	}
	defer dir.Close()
	lib := path.Join(path.Dir(server.Item.Path), server.Spec.Lib) + "/"
	for _, f := range tree.Files {
		if name := path.Join(anchor.Dir, f.Path); strings.HasPrefix(name, lib) {
			if err := dir.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}
