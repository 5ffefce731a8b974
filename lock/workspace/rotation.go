package workspace

import (
	"context"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
)

// Rotated returns the registries of rye.yaml whose log has the old or the new key of a rotation.
func (l *Lock) Rotated(r *registry.Rotation) ([]ryeyaml.Registry, error) {
	all := slices.DeleteFunc(slices.Clone(l.Yaml.Registries), func(at ryeyaml.Registry) bool {
		return at.Log != r.Before && at.Log != r.Log
	})
	if len(all) == 0 {
		return nil, fault.New(fault.NotFound, "no registry in rye.yaml has the log %q with the key that is replaced",
			r.Log.Name).On("log", r.Log.Name).On("before", r.Before.String()).Try("rye docs registry-trust")
	}
	return all, nil
}

// FollowRotation lets registries of the project go on with the new key of a rotation, and returns rye.yaml with it:
// the user has said so. Each must show that its log continues.
func (l *Lock) FollowRotation(ctx context.Context, r *registry.Rotation, all []ryeyaml.Registry) (*ryeyaml.Project,
	error) {
	if l.Offline {
		return nil, fault.New(fault.Offline, "the log %q can't show that it continues: rye is offline", r.Log.Name)
	}
	trust, err := l.Policy()
	if err != nil {
		return nil, err
	}
	witnesses, err := l.witnesses(l.DotAI)
	if err != nil {
		return nil, err
	}
	fetch := l.Web(trust)
	edited := l.Yaml
	for _, at := range all {
		at.Log = r.Log
		client := &registry.Client{At: at, Fetch: fetch, Journal: l.Journal(), Policies: witnesses, Now: l.Now}
		if err := client.Follow(ctx, r); err != nil {
			return nil, err
		}
		if edited, err = edited.AddRegistry(at); err != nil {
			return nil, err
		}
	}
	return edited, nil
}
