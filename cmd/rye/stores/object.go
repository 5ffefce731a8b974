package stores

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

// An objectArg is the argument of a command that reads one object.
type objectArg struct {
	Object string `arg:"" complete:"object" help:"Digest, digest prefix or ref; :PATH selects in a tree."`
}

// An optionalObject is an objectArg that may be missing.
type optionalObject struct {
	Object string `arg:"" optional:"" complete:"object" help:"Digest, digest prefix or ref; :PATH selects in a tree."`
}

// read opens the store, finds the object and calls do, and calls it again after a damaged object was healed. If a
// digest is stored under several kinds, first is preferred.
func (c objectArg) read(ctx context.Context, app *cli.App, first cas.Kind,
	do func(s *disk.Store, id cas.ID) error) error {
	store, err := paths.ReadStore(app)
	if err != nil {
		return err
	}
	defer store.Close()
	kinds := []cas.Kind{cas.TreeKind, cas.Blob, cas.Document}
	if first == cas.Blob {
		kinds = []cas.Kind{cas.Blob, cas.Document, cas.TreeKind}
	}
	var id cas.ID
	err = paths.Healing(ctx, app, store, cas.ID{}, func() error {
		o, err := paths.Resolve(ctx, store, c.Object, kinds...)
		id = o.Id
		return err
	})
	if err != nil {
		return err
	}
	return paths.Healing(ctx, app, store, id, func() error { return do(store, id) })
}
