package paths

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/lock/workspace"
)

// AdvisedLock returns the unread lock of the command's project with its rye.yaml, whose registries have the keys of
// their advisories. Outside of projects it is empty.
func AdvisedLock(a *cli.App) (*workspace.Lock, error) {
	w := UnreadWorkspace(a).Workspace
	found, err := w.OpenProject()
	if errors.Is(err, workspace.ErrNoProject) {
		return w.LockIn("", ""), nil
	}
	if err != nil {
		return nil, err
	}
	l := w.LockIn(found.Root, found.DotAI())
	if found.Marker == workspace.MarkerFile {
		l.Yaml, err = found.File(w.Version)
	}
	return l, err
}

// RegistryFetcher returns what reads from registries: a stranger's, which only a project names, lead to this machine
// or its network only where the user's policy says so. It is nil offline.
func RegistryFetcher(a *cli.App) func(stranger bool) registry.Fetcher {
	if a.IsOffline() {
		return nil
	}
	token := registryTokens(a)
	return func(stranger bool) registry.Fetcher {
		o := webOptions(a, stranger)
		o.Token = func(ctx context.Context, address string) (string, error) {
			at, private := registry.PrivateOf(address)
			if !private {
				return "", nil
			}
			return token(ctx, at, !stranger)
		}
		if root, err := Paths(a).RootPolicy(); err == nil {
			o.Inside = slices.Clone(root.Side.Policy.Sections().Inside)
		}
		return web.New(o)
	}
}
