package locks

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	lockfile "github.com/rye-build/rye/lock/file"
)

// pinTools pins the tools of the servers of a plugin that its publisher didn't pin, and locks them. The plugin is
// locked already, and stays so if they can't be: then nothing of them is left.
func (c *addRun) pinTools(ctx context.Context, app *cli.App, ans *changeAnswer) error {
	if ans.DryRun || !slices.ContainsFunc(ans.Made.Lock.Pins, func(p lockfile.Pin) bool {
		return strings.HasPrefix(p.Ref.String(), "tool:"+ans.Bundle+"/servers/")
	}) {
		return nil
	}
	refs, undo, err := catalogs.PinTools(ctx, app, ans.Bundle, c.KeyFlag)
	if err != nil || len(refs) == 0 {
		return err
	}
	plugin, edited := ans.LockAnswer, ans.Edited
	if err := c.lockTools(ctx, app, ans); err != nil {
		plugin.Problems, ans.LockAnswer, ans.Edited = ans.Problems, plugin, edited
		return errors.Join(err, undo())
	}
	ans.Edited = edited || ans.Edited
	ans.Changed, ans.Written = plugin.Changed || ans.Changed, plugin.Written || ans.Written
	ans.Changes = slices.Concat(plugin.Changes, ans.Changes)
	ans.Rights, ans.Signed = plugin.Rights, plugin.Signed
	ans.Warnings = slices.Concat(plugin.Warnings, ans.Warnings)
	return nil
}

// lockTools locks the tools that were pinned. If rye.yaml has roots, they are added to them.
func (c *addRun) lockTools(ctx context.Context, app *cli.App, ans *changeAnswer) error {
	lock, err := openEdited(app)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := addGlob(lock, "tool:"+ans.Bundle+"/**"); err != nil {
		return err
	}
	if err := lock.Open(); err != nil {
		return err
	}
	return c.change(ctx, lock, ans, &lockRun{KeyFlag: c.KeyFlag})
}
