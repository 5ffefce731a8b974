// What rye mv and rye rm share: mentions of an id, and the signer of items.

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

// mentions returns the items that name one of refs, and rye.yaml if a root does.
func mentions(ctx context.Context, v *spaces.Items, refs []model.Ref) ([]edit.Mention, error) {
	found, err := v.Mentions(ctx, refs)
	if v.Root.Marker == workspace.MarkerFile {
		if yaml, err := v.Root.File(paths.Running()); err == nil { // other commands report an invalid rye.yaml
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

// warnMentions warns about items that name an id that no longer exists.
func warnMentions(a *cli.App, all []edit.Mention) {
	for _, m := range all {
		a.Term.Warn("%q names %q as %s: %s", cmp.Or(m.Ref, m.File), m.To, m.As, m.File)
	}
}

// signer returns a function that signs items with a key, or nil for the zero Signer.
func signer(v *spaces.Items, k trusts.Signer) edit.Signer {
	if k.Name == "" {
		return nil
	}
	return func(ctx context.Context, it *ai.Item) ([]byte, error) { return signs.Signed(ctx, v, it, k) }
}
