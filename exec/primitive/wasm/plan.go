package wasm

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
)

// A plan is the request of a guest.
type plan struct {
	Module string   `json:"module"`
	Cache  string   `json:"cache,omitempty"`
	Make   bool     `json:"make,omitempty"` // only compile it into the cache
	Name   string   `json:"name"`           // the first argument
	Args   []string `json:"args,omitempty"`
	Env    []string `json:"env,omitempty"` // NAME=VALUE
	Pages  uint32   `json:"pages"`
	Pure   bool     `json:"pure,omitempty"`
	Root   string   `json:"root,omitempty"`
	Read   []string `json:"read,omitempty"`
	Write  []string `json:"write,omitempty"`
	Keep   []string `json:"keep,omitempty"`
	Deny   []string `json:"deny,omitempty"`
	Kept   bool     `json:"kept,omitempty"`  // another plan for the same module may follow
	Input  []byte   `json:"input,omitempty"` // the module's input in a kept guest; otherwise it follows the plan
}

// planOf returns the plan of an action, and the module's input.
func planOf(action *primitive.Action) (made *plan, input string, err error) {
	text := func(name string) string {
		s, _ := action.Config[name].(string)
		return s
	}
	made = &plan{Module: text("module"), Pure: action.Pure, Root: text("root"), Pages: maxPages}
	if !filepath.IsAbs(made.Module) || !inside(made.Module, action.Own) {
		return nil, "",
			fmt.Errorf("config.module must be one of the tool's own files, like {tool_dir}/_module.wasm, not %q",
				made.Module)
	}
	if made.Root != "" && (!filepath.IsAbs(made.Root) || filepath.Clean(made.Root) != made.Root) {
		return nil, "", fmt.Errorf("config.root must be a clean absolute path, not %q", made.Root)
	}
	made.Name = filepath.Base(made.Module)
	if made.Args, err = action.Args(); err != nil {
		return nil, "", err
	}
	for i, arg := range made.Args {
		if strings.Contains(arg, "\x00") {
			return nil, "", proc.BadArgument(fmt.Sprintf("argument %d", i+1), "contains a NUL byte")
		}
	}
	vars, _ := action.Config["env"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v, ok := vars[name].(string)
		if !ok || name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v, "\x00") {
			return nil, "", proc.BadArgument(fmt.Sprintf("variable %.100q", name), "can't be passed")
		}
		made.Env = append(made.Env, name+"="+v)
	}
	made.Pages = uint32(min(action.Sandbox.Limits.OrDefaults().Memory/page, maxPages))
	if made.Root != "" {
		near := func(list []string) (some []string) {
			for _, at := range list {
				if inside(at, made.Root) || inside(made.Root, at) {
					some = append(some, at)
				}
			}
			return some
		}
		made.Read, made.Write = near(action.Sandbox.Read), near(action.Sandbox.Write)
		made.Keep, made.Deny = near(action.Sandbox.Keep), near(action.Sandbox.Deny)
	}
	return made, text("input_data"), nil
}

// inside reports whether a path is a directory or below it.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

// confine returns the sandbox of a guest: the module's grants, without the extras of other programs.
func confine(a *primitive.Action, p *plan) sandbox.Spec {
	s := a.Sandbox
	s.Read, s.Write = append(slices.Clone(p.Read), p.Module), p.Write
	l := &s.Limits
	l.Wall, l.Memory = a.Wall(), int64(p.Pages)*page+Overhead
	l.Processes = sandbox.DefaultLimits().Processes // the guest's own threads
	if l.Files > 0 {
		l.Files += ownFiles
	}
	return s
}
