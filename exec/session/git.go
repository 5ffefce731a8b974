package session

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/lock/git"
)

// Git returns how a workspace runs git: the one in the host's PATH, with its proxies and certificates, and never a
// program of the project.
func Git(host env.Host) func(project string) git.Options {
	return func(project string) git.Options {
		options := git.Options{Vars: map[string]string{}}
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
			if v := host.Vars[name]; v != "" {
				options.Vars[name] = v
			}
		}
		for from, to := range map[string]string{"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"} {
			if v := host.Vars[from]; v != "" {
				options.Vars[to] = v
			}
		}
		h := &helper{name: "git", host: host, project: project}
		options.Run = h.run
		return options
	}
}

// A helper is a program of the host that rye itself starts. It is found once, by the rules for the programs of chains.
type helper struct {
	name, project string
	host          env.Host

	mu   sync.Mutex
	path string
}

func (h *helper) run(ctx context.Context, c git.Command) (int, error) {
	path, vars, err := h.find(ctx, c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, fault.New(fault.Unavailable, "%s is not in PATH; it reads repositories",
			h.name).From(err).Try("git version").On("program", h.name)
	}
	if err != nil {
		return -1, err
	}
	ended, err := proc.Run(ctx, proc.Command{Path: path, Args: c.Args, Env: append(vars, c.Env...), Dir: c.Dir,
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr})
	if ended == nil {
		return -1, err
	}
	return ended.Code, nil
}

// find returns the path of the program and the host's variables that it may see. Private is its home.
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
