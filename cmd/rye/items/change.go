package items

import (
	"cmp"
	"context"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/workspace"
)

// mentions finds the items that name one of some refs, and rye.yaml if its roots do.
func mentions(ctx context.Context, v *spaces.Items, refs []model.Ref) ([]edit.Mention, error) {
	found, err := v.Mentions(ctx, refs)
	if v.Root.Marker == workspace.MarkerFile {
		if yaml, err := v.Root.File(paths.Running()); err == nil { // commands that need it report a broken one
			for _, root := range yaml.Roots {
				if i := slices.IndexFunc(refs, func(ref model.Ref) bool { return ref.String() == root.Text }); i >= 0 {
					found = append(found, edit.Mention{File: workspace.MarkerFile, As: "root", To: refs[i].String()})
				}
			}
		}
	}
	edit.SortMentions(found)
	return found, err
}

// warnMentions warns of items that name one that no longer exists.
func warnMentions(a *cli.App, all []edit.Mention) {
	for _, m := range all {
		a.Term.Warn("%q names %q as %s: %s", cmp.Or(m.Ref, m.File), m.To, m.As, m.File)
	}
}

// signer returns what signs items with a key; nil without one.
func signer(v *spaces.Items, k trusts.Signer) edit.Signer {
	if k.Name == "" {
		return nil
	}
	return func(ctx context.Context, it *ai.Item) ([]byte, error) { return signs.Signed(ctx, v, it, k) }
}
