package catalog

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// Install writes items that were made on a stage to a space, all or none: the server's first, so that an interruption leaves
// a server with fewer tools, which a refresh finds. Each either replaces the file that was looked at before, or is new.
func Install(ctx context.Context, space *ai.Space, all []*ai.Item, replaced map[string]*ai.Item, now time.Time) error {
	d, err := edit.OpenDir(space.Dir, space.Level)
	if err != nil {
		return err
	}
	defer d.Close()
	batch := osfile.NewBatch(len(all), now)
	staged := make([]*osfile.Staged, 0, len(all))
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
		st, err := batch.Stage(d, place, before, edit.Mode(false), osfile.BytesOf(it.Bytes))
		if err != nil {
			batch.Drop(staged)
			return err
		}
		staged = append(staged, st)
	}
	done, err := batch.Commit(ctx, staged)
	if err == nil {
		return nil
	}
	for i, it := range all[:done] { // what is new goes again; what was replaced is good as it is
		if replaced[it.Ref.String()] == nil {
			err = errors.Join(err, d.Remove(all[i].Path))
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
		err = fault.New(fault.Conflict, "%s changed while it was worked on, and was left as it is", it.Ref).On("ref", it.Ref.String())
	}
	return info, err
}
