package locks

// This file pins and removes the tools of the servers of plugins.

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/exchange"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/update"
)

// pinTools pins the tools of the servers of a plugin that its publisher didn't pin, and locks them. The plugin is
// locked already, and stays so if they can't be: then nothing of them is left.
func (c *addRun) pinTools(ctx context.Context, app *cli.App, ans *changeAnswer) error {
	if ans.DryRun || !hasServers(ans.Made.Lock, ans.Bundle, "") {
		return nil
	}
	refs, undo, err := catalogs.PinTools(ctx, app, ans.Bundle, c.KeyFlag)
	if err != nil || len(refs) == 0 {
		return err
	}
	plugin, edited := ans.LockAnswer, ans.Edited
	if err := c.lockTools(ctx, app, ans, refs); err != nil {
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

// hasServers reports whether a lock has pins of a plugin's servers or their tools, from a space or from any.
func hasServers(lock *lockfile.Lock, plugin, from string) bool {
	return slices.ContainsFunc(lock.Pins, func(p lockfile.Pin) bool {
		return strings.HasPrefix(p.Ref.String(), "tool:"+plugin+"/servers/") && (from == "" || p.From == from)
	})
}

// lockTools locks the tools that were pinned. If rye.yaml has roots, they are added to them.
func (c *addRun) lockTools(ctx context.Context, app *cli.App, ans *changeAnswer, refs []string) error {
	lock, err := openEdited(app)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, ref := range refs {
		if err := addRoot(lock, ref); err != nil {
			return err
		}
	}
	if err := lock.Open(); err != nil {
		return err
	}
	return c.change(ctx, lock, ans, &lockRun{KeyFlag: c.KeyFlag})
}

// noteTools names the changed servers whose tools the user of the plugin pins, and the command that does so again.
func noteTools(l *paths.Lock, result *update.Result) {
	for _, w := range result.Weakenings {
		if w.Kind != lock.ServerChanged {
			continue
		}
		tools := slices.DeleteFunc(slices.Clone(result.Made.Lock.Pins), func(p lockfile.Pin) bool {
			return !strings.HasPrefix(p.Ref.String(), w.Name+"/")
		})
		if len(tools) > 0 && tools[0].From != lockfile.FromProject {
			continue // its publisher pins them
		}
		plugin, server, _ := strings.Cut(strings.TrimPrefix(w.Name, "tool:"), "/servers/")
		how := "its tools aren't pinned yet"
		if len(tools) > 0 {
			how = "its tools are pinned as they were before it changed"
		}
		l.App.Term.Note("%s: %s; next: %s", w.Name, how, fault.Command("rye mcp refresh", plugin+"/"+server))
	}
}

// removePlugins removes what was made of plugins for the project, and their roots.
func (c *removeRun) removePlugins(ctx context.Context, lock *paths.Lock, ids []string) (undo func() error, err error) {
	var undone []func() error
	undo = func() (err error) {
		for _, one := range slices.Backward(undone) {
			err = errors.Join(err, one())
		}
		return err
	}
	for _, id := range ids {
		one, err := c.removePlugin(ctx, lock, id)
		if err != nil {
			return undo, errors.Join(err, undo())
		}
		undone = append(undone, one)
	}
	return undo, nil
}

// removePlugin removes what was made of a plugin for the project: all below the id of an unsigned one, else the tools
// that were pinned of its servers. undo brings it back.
func (c *removeRun) removePlugin(ctx context.Context, lock *paths.Lock, id string) (undo func() error, err error) {
	var roots, files []string
	if lock.Old != nil && hasServers(lock.Old, id, lockfile.FromProject) {
		tools, err := catalogs.PinnedTools(ctx, lock.App, id)
		if err != nil {
			return nil, err
		}
		for _, it := range tools {
			roots, files = append(roots, it.Ref.String()), append(files, it.Path)
		}
	}
	unsigned := strings.HasPrefix(id, pluginIDs)
	switch {
	case unsigned:
		roots = append(roots, pluginRoots(id)...)
	case len(files) == 0:
		return func() error { return nil }, nil
	}
	for _, root := range roots {
		if slices.ContainsFunc(lock.Yaml.Roots, func(r ryeyaml.Root) bool { return r.Text == root }) {
			if lock.Yaml, err = lock.Yaml.RemoveRoot(root); err != nil {
				return nil, err
			}
		}
	}
	writer, err := exchange.OpenWriter(ctx, lock.App, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	if unsigned {
		err = writer.Parts(id, nil)
	} else {
		err = writer.Remove(id, files)
	}
	if err != nil {
		return nil, err
	}
	n := writer.Changes()
	if n > 0 {
		lock.App.Term.Note("%s %s that rye made of %s", cli.DryVerb(c.DryRun, "removes", "would remove"),
			fault.Count(int64(n), "file"), id)
	}
	if c.DryRun || n == 0 {
		return func() error { return nil }, nil
	}
	return writer.Plan.Write(ctx)
}
