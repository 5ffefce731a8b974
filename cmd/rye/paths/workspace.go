package paths

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/workspace"
)

// A Workspace is a workspace and the command that works with it.
type Workspace struct {
	*workspace.Workspace
	App *cli.App
}

// A Lock is a lock and the command that works with it.
type Lock struct {
	*workspace.Lock
	App *cli.App
}

// Close closes the lock and its workspace.
func (l *Lock) Close() {
	l.Lock.Close()
	l.Workspace.Close()
}

// Options returns the workspace options for this command line.
func Options(app *cli.App) workspace.Options {
	say := func(show func(string, ...any)) func(string, error) {
		return func(what string, err error) {
			if err == nil {
				show("%s", what)
				return
			}
			f := fault.Of(err)
			if what != "" {
				what += ": "
			}
			if what += f.Text; len(f.Hint) > 0 {
				what += "; " + app.Globals.Placed(f.Hint[0])
			}
			show("%s", what)
		}
	}
	return workspace.Options{
		Now: app.Now, Offline: app.IsOffline(), PlainHTTP: app.Globals.PlainHTTP, Show: fromHere(app),
		Warn: say(app.Term.Warn), Detail: say(app.Term.Detail),
		Extractors: func(ignored []*ai.ItemError) { WarnExtractors(app, ignored) },
		Retried:    func(err error, in time.Duration) { AskedAgain(app, err, in) },
		Git:        session.Git(MachineHost(app)),
		OCI:        registryOptions(app),
		Parts:      parts.Verify,
		Token:      registryTokens(app),
	}
}

// OpenWorkspace opens the command's project, or the user's space outside of projects.
func OpenWorkspace(a *cli.App) (*Workspace, error) {
	w, err := workspace.Open(context.Background(), *Paths(a), Options(a))
	if err != nil {
		return nil, err
	}
	return &Workspace{w, a}, nil
}

// Finder returns the finder of bundles for arguments of this command.
func (w *Workspace) Finder(ctx context.Context) *find.Finder {
	f := w.Workspace.Finder()
	f.Input, f.OnlyIDs = w.App.Input(ctx), w.App.ByID
	return f
}

// Find finds the bundle that an argument names; without one, the project's only bundle.
func (w *Workspace) Find(ctx context.Context, text string) (*find.Found, error) {
	if text == "" && w.Workspace.Finder().Project == "" { // neither a project nor a plugin
		_, err := w.OpenProject()
		return nil, fault.Of(cmp.Or(err, workspace.ErrNoProject)).Try("rye bundle list --all")
	}
	return w.Finder(ctx).Find(ctx, text)
}

// FindBundle opens the workspace and finds a bundle. The caller closes the workspace.
func FindBundle(ctx context.Context, a *cli.App, text string) (*Workspace, *find.Found, error) {
	w, err := OpenWorkspace(a)
	if err != nil {
		return nil, nil, err
	}
	l, err := w.Find(ctx, text)
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return w, l, nil
}

// OpenLock opens the project's lock. With conflict, a lock with an unfinished git merge in it counts as missing.
func OpenLock(a *cli.App, conflict bool) (*Lock, error) {
	w, err := OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	l, err := w.OpenLock(conflict)
	if err != nil {
		w.Close()
		return nil, err
	}
	return &Lock{l, a}, nil
}

// OpenUserLock opens the user's own lock.
func OpenUserLock(a *cli.App, conflict bool) (*Lock, error) {
	l, err := UnreadWorkspace(a).UserLock(conflict)
	if err != nil {
		return nil, err
	}
	return &Lock{l, a}, nil
}

// UnreadWorkspace returns a workspace without searching for its project.
func UnreadWorkspace(a *cli.App) *Workspace {
	return &Workspace{workspace.Unread(*Paths(a), Options(a)), a}
}

// MachineHost returns this machine's facts for chains and for programs that rye starts itself.
func MachineHost(a *cli.App) env.Host {
	h := env.Host{Vars: map[string]string{}, Files: env.Disk{}, Ask: proc.Asker{}}
	for _, v := range a.Environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			h.Vars[name] = value
		}
	}
	return h
}

// WarnExtractors warns about ignored extractors, once for each reason.
func WarnExtractors(app *cli.App, all []*ai.ItemError) {
	reasons := make([]string, len(all))
	more := map[string]int{}
	for i, w := range all {
		reasons[i] = strings.TrimPrefix(fault.Of(w).Text, fmt.Sprintf("%q ", w.Ref))
		more[reasons[i]]++
	}
	for i, w := range all {
		n := more[reasons[i]] - 1
		switch {
		case n > 0:
			app.Term.Warn("extractors: %s; and %d more", fault.Of(w).Text, n)
		case n == 0:
			app.Term.Warn("extractors: %s", fault.Of(w).Text)
		}
		more[reasons[i]] = 0
	}
}

// Abs makes the path of an argument absolute.
func (w *Workspace) Abs(path string) (string, error) {
	s := w.App.Absolute(cli.Setting{Value: path})
	return s.Value, s.Err
}

// FromHere returns a path relative to the working directory if the file is below it, else absolute.
func FromHere(a *cli.App, full string) string { return fromHere(a)(full) }

// fromHere is FromHere for many files: it looks up the working directory once.
func fromHere(a *cli.App) func(full string) string {
	dirs := sync.OnceValue(func() []string {
		wd, err := a.Getwd()
		if err != nil {
			return nil
		}
		if real, err := filepath.EvalSymlinks(wd); err == nil && real != wd {
			return []string{wd, real}
		}
		return []string{wd}
	})
	return func(full string) string {
		for _, dir := range dirs() {
			if rel, err := filepath.Rel(dir, full); err == nil && filepath.IsLocal(rel) {
				return rel
			}
		}
		return full
	}
}
