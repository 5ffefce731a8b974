package starlark

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox"
)

// shared returns what the actions have in common that a guest may be kept for, and "" for an action that has one of
// its own. It takes from the sandbox of the call what a script can't use: the directories that only this action may
// write.
//
// Nothing is kept of who may write, since what was written counts for the whole life of a guest. Nor where something
// is hidden in what may be read: what is beside it is granted as it stands there when the guest begins.
func shared(a *primitive.Action, c *worker.Call) string {
	if a.Scratch == "" || len(a.Files.Write) > 0 || !inside(a.Dir, a.Scratch) ||
		slices.ContainsFunc(c.Sandbox.Write, func(at string) bool { return !inside(at, a.Scratch) }) {
		return ""
	}
	for _, dir := range c.Sandbox.Read {
		if slices.ContainsFunc(c.Sandbox.Deny, func(at string) bool { return inside(at, dir) }) {
			return ""
		}
	}
	c.Sandbox.Write = nil
	spec := c.Sandbox
	spec.Limits.Wall, spec.Limits.Output = 0, 0 // those of each call
	key, err := json.Marshal(struct {
		Sandbox          sandbox.Spec
		Files            primitive.Files
		Share, Tool, Own string
		Links            []string
		Dir              string
		Pure, Stranger   bool
	}{spec, a.Files, a.Share, a.Tool, a.Own, a.Links, c.Dir, a.Pure, a.Stranger})
	if err != nil {
		return ""
	}
	return string(key)
}

// inside reports whether a path is a directory or in it.
func inside(at, dir string) bool {
	rel, err := filepath.Rel(dir, at)
	return err == nil && filepath.IsLocal(rel)
}
