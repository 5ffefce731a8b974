package paths

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/vendor"
)

// Healing runs do, which reads root from the store; a zero root is not known yet. If do meets a damaged object that
// .ai/vendor has, Healing replaces it in the store, tells the user, and runs do again.
func Healing(ctx context.Context, a *cli.App, s *disk.Store, root cas.ID, do func() error) error {
	for {
		err := do()
		d, damaged := errors.AsType[*cas.DamagedError](err)
		if !damaged || !heal(ctx, a, s, cmp.Or(root, d.ID)) {
			return err
		}
	}
}

// heal reports whether it has replaced any object of root in the store.
func heal(ctx context.Context, app *cli.App, store *disk.Store, root cas.ID) bool {
	p, err := Paths(app).FindProject()
	if err != nil {
		return false
	}
	dir := filepath.Join(p.DotAI(), "vendor")
	v, err := vendor.Open(dir)
	if err != nil {
		return false
	}
	defer v.Close()
	n, err := store.Heal(ctx, v, root)
	if err != nil {
		app.Term.Detail("%s can't be healed from %q: %v", root, FromHere(app, dir), err)
		return false
	}
	if n > 0 {
		app.Term.Warn("healed %s in the store from %q", fault.Count(n, "damaged object"), FromHere(app, dir))
	}
	return n > 0
}
