package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxMessage is the greatest limit on a message, in bytes.
const maxMessage = 64 << 20

// A request describes the call of an action.
type request struct {
	server     string // the name in messages
	tool       string // "" for the server's announcement
	definition cas.Digest
	arguments  map[string]any
	wall       time.Duration
	output     int64 // limit on the value, in bytes
	message    int64 // limit on a message, in bytes
	declared   bool  // the tool declares the message limit
	key        string
}

func newRequest(action *primitive.Action) (*request, error) {
	request := &request{server: serverOf(action), wall: action.Wall(), arguments: map[string]any{},
		message: MaxMessage}
	request.output = action.Sandbox.Limits.OrDefaults().Output
	if n := action.Sandbox.Limits.Output; n > 0 {
		request.message, request.declared = min(n, maxMessage), true
	}
	if request.wall <= 0 {
		request.wall = sandbox.DefaultLimits().Wall
	}
	request.key = key(action)
	request.tool, _ = action.Config["tool_name"].(string)
	if request.tool == "" {
		return request, nil
	}
	text, _ := action.Config["definition"].(string)
	var err error
	if request.definition, err = cas.ParseDigest(text); err != nil {
		return nil, fmt.Errorf("config.definition must be the digest of the tool's definition: %w", err)
	}
	if given, ok := action.Config["arguments"]; ok {
		text, _ := given.(string)
		v, err := jcs.Parse([]byte(text))
		object, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, fmt.Errorf("config.arguments must be a JSON object, like {params_json}, not %.100v", given)
		}
		request.arguments = object
	}
	return request, nil
}

// serverOf returns the ref of the server's item: the link before the runtime, or the tool if it has no such link.
func serverOf(a *primitive.Action) string {
	if n := len(a.Links); n >= 3 {
		return a.Links[n-3]
	}
	return a.Tool
}

// perCall lists the configuration entries that don't affect how a server is started.
var perCall = []string{"tool_name", "definition", "arguments", "timeout"}

// key returns what calls must have in common to share a server. It is a digest, since it contains secrets.
func key(action *primitive.Action) string {
	config := maps.Clone(action.Config)
	for _, name := range perCall {
		delete(config, name)
	}
	programs := map[string]string{}
	for name, p := range action.Programs {
		programs[name] = p.Path
	}
	spec := action.Sandbox
	spec.Limits.Wall = 0
	text, err := json.Marshal(map[string]any{"config": config, "env": action.Env, "dir": action.Dir,
		"programs": programs,
		"share":    action.Share, "stranger": action.Stranger})
	if err != nil {
		return "" // not JSON, so the primitive refuses the configuration
	}
	// A server keeps the directories of the first call, so calls that differ only in their scratch directories share
	// it.
	whole := anonymous(string(text), action.Scratch, "scratch")
	uses := action.Own != "" && whole != anonymous(whole, action.Own, "own")
	if !uses && action.Own != "" {
		spec.Read = slices.DeleteFunc(slices.Clone(spec.Read), func(path string) bool { return path == action.Own })
	}
	if text, err = json.Marshal(spec); err != nil {
		return ""
	}
	return cas.Sum([]byte(whole + "\n" + anonymous(string(text), action.Scratch, "scratch"))).String()
}

// anonymous replaces a path in JSON by a placeholder.
func anonymous(text, path, by string) string {
	if path == "" {
		return text
	}
	quoted, err := json.Marshal(path)
	if err != nil {
		return text
	}
	return strings.ReplaceAll(text, strings.Trim(string(quoted), `"`), "{"+by+"}")
}

// environment returns the variables for the server's process.
func environment(a *primitive.Action) ([]string, error) {
	set, _ := a.Config["env"].(map[string]any)
	all := slices.DeleteFunc(slices.Clone(a.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, again := set[name]
		return again
	})
	for _, name := range slices.Sorted(maps.Keys(set)) {
		text, ok := set[name].(string)
		if !ok {
			return nil, fmt.Errorf("the variable %q must be a string, not %v", name, set[name])
		}
		if err := env.Check(name, text); err != nil {
			return nil, fmt.Errorf("config.env: %w", err)
		}
		all = append(all, name+"="+text)
	}
	slices.Sort(all)
	return all, nil
}

// directory returns the server's working directory.
func directory(a *primitive.Action) (string, error) {
	v, ok := a.Config["cwd"]
	if !ok {
		return a.Dir, nil
	}
	dir, _ := v.(string)
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("config.cwd must be an absolute path, not %v", v)
	}
	return filepath.Clean(dir), nil
}
