package starlark

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox"
)

// shared returns the key of a guest that several actions may share, or "" for an action that needs a guest of its
// own. It removes from the call's sandbox the directories that only this action may write, which a script can't use.
//
// An action that may write gets a guest of its own, since the limit on written bytes applies to the whole life of a
// guest. So does an action with a denied path inside a readable one: the sandbox then grants the entries beside it
// one by one, as they are when the guest begins.
func shared(action *primitive.Action, call *worker.Call) string {
	if action.Scratch == "" || len(action.Files.Write) > 0 || !inside(action.Dir, action.Scratch) ||
		slices.ContainsFunc(call.Sandbox.Write, func(at string) bool { return !inside(at, action.Scratch) }) {
		return ""
	}
	for _, dir := range call.Sandbox.Read {
		if slices.ContainsFunc(call.Sandbox.Deny, func(at string) bool { return inside(at, dir) }) {
			return ""
		}
	}
	call.Sandbox.Write = nil
	spec := call.Sandbox
	spec.Limits.Wall, spec.Limits.Output = 0, 0 // each call has its own
	key, err := json.Marshal(struct {
		Sandbox          sandbox.Spec
		Files            primitive.Files
		Share, Tool, Own string
		Links            []string
		Dir              string
		Pure, Stranger   bool
	}{spec, action.Files, action.Share, action.Tool, action.Own, action.Links, call.Dir, action.Pure, action.Stranger})
	if err != nil {
		return ""
	}
	return string(key)
}

// inside reports whether a path is a directory or below it.
func inside(at, dir string) bool {
	rel, err := filepath.Rel(dir, at)
	return err == nil && filepath.IsLocal(rel)
}
