package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/workspace"
)

// A toolchain finds the programs of this machine that chains would start.
type toolchain struct {
	lock    *workspace.Lock
	host    env.Host
	nowhere string          // replaces directories that exist only during a call
	known   map[string]bool // by key
}

// Toolchain returns the finder of programs for a lock; nil unless a policy requires pinned programs.
func Toolchain(l *workspace.Lock, host env.Host) relock.Toolchain {
	if !PoliciesOf(l.Trust).Floor().Enforce {
		return nil
	}
	return &toolchain{lock: l, host: host, nowhere: filepath.Join(l.DotAI, "nowhere"), known: map[string]bool{}}
}

// Platform implements relock.Toolchain.
func (*toolchain) Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Programs implements relock.Toolchain.
func (t *toolchain) Programs(ctx context.Context, v *ai.View, tools []model.Ref) (found []lockfile.Program,
	missing []error, err error) {
	for _, ref := range tools {
		chain, err := ai.Walk(ctx, v, ref)
		if _, none := errors.AsType[*ai.ChainError](err); none {
			continue // an extractor, which nothing runs; all others were checked before
		}
		if err != nil {
			return nil, nil, err
		}
		key := t.key(chain)
		if t.known[key] {
			continue
		}
		t.known[key] = true
		programs, err := t.starts(ctx, chain)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err != nil {
			missing = append(missing, fmt.Errorf("what %q starts: %w", ref, err))
		}
		found = append(found, programs...)
	}
	return found, missing, nil
}

// key is equal for chains with the same declarations about programs: most tools have none, and leave that to their
// runtimes.
func (t *toolchain) key(chain *ai.Chain) string {
	var key strings.Builder
	for _, it := range chain.Links {
		if tool := it.Model.Tool; !tool.EnvConfig.IsNull() || !tool.Config.IsNull() || tool.Primitive {
			key.WriteString(it.Space.Label + " " + it.Ref.String() + "\n")
		}
	}
	return key.String()
}

// starts returns the programs that a chain would start, in the order in which it names them, by the rules that hold
// when it runs.
func (t *toolchain) starts(ctx context.Context, chain *ai.Chain) ([]lockfile.Program, error) {
	all := (&Session{w: t.lock.Workspace}).primitives(Machine("", nil))
	starter, does := all[chain.Primitive().ID].(primitive.Starter)
	if !does {
		return nil, nil
	}
	request := env.Request{Host: t.host, Project: t.lock.Dir, Home: t.nowhere, Temp: t.nowhere,
		Names: map[string]string{}}
	for _, name := range []string{"tool_path", "tool_dir", "tool_parent", "anchor_path", "runtime_lib", "project_path",
		"user_space"} {
		request.Names[name] = filepath.Join(t.nowhere, name)
	}
	request.Names["project_path"] = t.lock.Dir
	k := &exec.Kernel{Project: t.lock.Dir}
	protect(&t.lock.Paths, k)
	request.Forbidden = k.Forbidden
	for _, it := range chain.Links {
		if !it.Model.Tool.Primitive {
			request.Links = append(request.Links, env.Link{Name: it.Ref.String(), EnvConfig: it.Model.Tool.EnvConfig})
		}
	}
	made, err := env.Resolve(ctx, request)
	if err != nil {
		return nil, err
	}
	programs := made.Programs
	for _, name := range starter.Starts(t.config(chain, made, request.Names)) {
		if name == "" || strings.HasPrefix(name, t.nowhere) {
			continue // a file of the chain, or known only with parameters
		}
		more, err := env.Find(request, made, name)
		if err != nil {
			return nil, err
		}
		programs = append(programs, more...)
	}
	lines := make([]lockfile.Program, len(programs))
	for i, p := range programs {
		lines[i] = lockfile.Program{Name: lock.ProgramName(p.Path), Version: versionOf(p), Digest: p.Digest}
	}
	return lines, nil
}

// config returns the texts in the links' configuration that don't depend on parameters.
func (t *toolchain) config(chain *ai.Chain, made *env.Env, names map[string]string) map[string]any {
	config := map[string]any{}
	for _, it := range chain.Links {
		c := it.Model.Tool.Config
		if c.IsNull() {
			continue
		}
		for i := range c.Map {
			entry := &c.Map[i]
			if _, nearer := config[entry.Key]; nearer || entry.Value.Kind != value.Text {
				continue
			}
			text, err := template.Expand(entry.Value.Text, func(name string) (string, bool) {
				v, ok := made.Vars[name]
				return v, ok
			},
				func(name string) (string, bool) { v, ok := names[name]; return v, ok })
			if err != nil {
				text = ""
			}
			config[entry.Key] = text
		}
	}
	return config
}

// versionOf is the version of a program as its place has it, or as its file is called: python3.13.
func versionOf(p env.Program) string {
	name := lock.ProgramName(p.Real)
	digits := strings.TrimLeft(name[strings.LastIndexByte(name, '-')+1:],
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	if strings.Trim(digits, "0123456789.") != "" || !strings.Contains(digits, ".") {
		digits = ""
	}
	return cmp.Or(p.Version, digits, lock.NoVersion)
}
