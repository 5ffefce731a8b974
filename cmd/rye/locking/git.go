package locking

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/proc"
	repos "github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/web"
)

// git reads repositories with the git of this machine, which is looked for when it is needed. It dials what the client
// would.
func (l *Locking) git(client *web.Client) (*repos.Client, error) {
	cache := l.App.Dir(cli.CachePlace)
	if cache.Err != nil {
		for _, need := range l.Yaml.Requires {
			if _, ofGit := need.Source.Git(); ofGit {
				return nil, cache.Err
			}
		}
		return nil, nil
	}
	o := repos.Options{Dir: filepath.Join(cache.Value, "git"), Vars: map[string]string{}, Reach: client.Reach}
	// Proxies and certificates are as Go takes them from the environment.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		if v := l.App.Env(name); v != "" {
			o.Vars[name] = v
		}
	}
	for from, to := range map[string]string{"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"} {
		if v := l.App.Env(from); v != "" {
			o.Vars[to] = v
		}
	}
	h := helper{name: "git", host: MachineHost(l.App), project: l.Dir}
	o.Run = func(ctx context.Context, c repos.Command) (int, error) {
		path, vars, err := h.find(ctx, c.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			return -1, &fault.Error{Code: fault.Unavailable, Err: err, Text: "repositories are read with git, and there is none in PATH", Hint: []string{"git version"},
				Details: map[string]any{"program": h.name}}
		}
		if err != nil {
			return -1, err
		}
		ended, err := proc.Run(ctx, proc.Command{Path: path, Args: c.Args, Env: append(vars, c.Env...), Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr})
		if ended == nil {
			return -1, err
		}
		return ended.Code, nil
	}
	return repos.New(o), nil
}

// A helper is a program of the host that rye itself starts. It is found by the rules for the programs of chains, and once.
type helper struct {
	name, project string
	host          env.Host

	mu   sync.Mutex
	path string
}

// find returns the path of the program, and what of the host's variables it may see. Private is its home.
func (h *helper) find(ctx context.Context, private string) (string, []string, error) {
	q := env.Request{Host: h.host, Project: h.project, Home: private, Temp: private}
	made, err := env.Resolve(ctx, q)
	if err != nil {
		return "", nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.path == "" {
		found, err := env.Find(q, made, h.name)
		if err != nil {
			return "", nil, err
		}
		h.path = found[0].Path
	}
	return h.path, made.List(), nil
}

// MachineHost is what this machine has for chains and helpers.
func MachineHost(a *cli.App) env.Host {
	h := env.Host{Vars: map[string]string{}, Files: env.Disk{}, Ask: proc.Asker{}}
	for _, v := range a.Environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			h.Vars[name] = value
		}
	}
	return h
}
