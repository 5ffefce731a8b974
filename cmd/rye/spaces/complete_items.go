package spaces

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/template/params"
)

// The user waits after pressing Tab, so completion ends after CompleteTime and offers at most maxOffered refs. It
// reads up to maxRead files to leave out assets.
const (
	CompleteTime = 400 * time.Millisecond
	maxOffered   = 2000
	maxRead      = 200
)

// Taken says which items an argument takes.
type Taken struct {
	Kinds []string            // nil: all kinds
	Bare  string              // the kind that an id without a kind has; "": the id of an item of any of Kinds
	Own   bool                // only items of the space that this user may change
	Only  func(*ai.Item) bool // nil: all of the kinds
}

// CompleteRefs offers the items that an argument takes. A word with a kind is completed to a ref. Any other is
// completed to kinds and to the ids that name one item; of what isn't typed at all, it offers only the project's ids.
// It goes by the names of files, and reads few of them.
func CompleteRefs(ctx context.Context, a *cli.App, taken Taken, prefix string) (out []cli.Candidate) {
	ctx, cancel := context.WithTimeout(ctx, CompleteTime)
	defer cancel()
	items, err := OpenItems(ctx, a)
	if err != nil {
		return nil
	}
	defer items.Close()
	kind, _, typed := strings.Cut(prefix, ":")
	ids := map[string]int{} // how many kinds have it
	for _, k := range items.Kinds() {
		if taken.Kinds != nil && !slices.Contains(taken.Kinds, k.Name) || typed && k.Name != kind {
			continue
		}
		from := k.Name + ":" + prefix
		switch {
		case typed:
			from = prefix
		case taken.Bare != k.Name:
			out = append(out, cli.Candidate{Value: k.Name + ":", Help: "items in " + k.Dir})
		}
		if !typed && taken.Bare != "" && taken.Bare != k.Name {
			continue
		}
		for _, c := range refsOf(ctx, items, k.Name, taken, from, !typed && prefix == "" && taken.Bare == "") {
			if !typed {
				c.Value = strings.TrimPrefix(c.Value, k.Name+":")
				ids[c.Value]++
			}
			out = append(out, c)
		}
	}
	return slices.DeleteFunc(out, func(c cli.Candidate) bool { return ids[c.Value] > 1 })
}

// refsOf returns the refs of a kind that begin with from.
func refsOf(ctx context.Context, items *Items, kind string, taken Taken, from string, own bool) (out []cli.Candidate) {
	listing, err := items.Files(ctx, kind)
	if err != nil {
		return nil
	}
	listing.Files = slices.DeleteFunc(listing.Files, func(f ai.File) bool {
		return !strings.HasPrefix(f.Ref.String(), from) || (own || taken.Own) && f.Space != items.Own()
	})
	if len(listing.Files) <= maxRead {
		left := make([]bool, len(listing.Files))
		if err := items.Each(ctx, listing.Files, func(i int, it *ai.Item, err error) {
			left[i] = errors.Is(err, ai.ErrAsset) || taken.Only != nil && (err != nil || !taken.Only(it))
		}); err == nil {
			for i, asset := range left {
				if asset {
					listing.Files[i].ID = ""
				}
			}
		}
	}
	for _, f := range listing.Files {
		// Files of several spaces with one ref are adjacent.
		if ref := f.Ref.String(); f.ID != "" && len(out) < maxOffered &&
			(len(out) == 0 || out[len(out)-1].Value != ref) {
			out = append(out, cli.Candidate{Value: ref, Help: f.Space.Label})
		}
	}
	return out
}

// CompleteInputs offers the inputs of the item in args[0] as NAME=, and after NAME= the values, if the schema lists
// them.
func CompleteInputs(ctx context.Context, a *cli.App, kind string, args []string, prefix string) (out []cli.Candidate) {
	if len(args) == 0 {
		return nil
	}
	text := args[0]
	if !strings.Contains(text, ":") {
		text = kind + ":" + text
	}
	ctx, cancel := context.WithTimeout(ctx, CompleteTime)
	defer cancel()
	v, err := OpenItems(ctx, a)
	if err != nil {
		return nil
	}
	defer v.Close()
	ref, _ := model.ParseRef(text)
	it, err := v.Find(ctx, ref)
	if err != nil {
		return nil
	}
	schema, err := params.Compile(it.Model.Interface().Input)
	if err != nil {
		return nil
	}
	typed, _, valued := strings.Cut(prefix, "=")
	for _, f := range schema.Fields() {
		if !valued {
			out = append(out, cli.Candidate{Value: f.Name + "=", Help: f.Description})
		} else if f.Name == typed {
			for _, value := range f.Values {
				var word string // texts are typed without quotes
				if json.Unmarshal([]byte(value), &word) != nil {
					word = value
				}
				out = append(out, cli.Candidate{Value: typed + "=" + word})
			}
		}
	}
	return out
}

// CompleteKinds offers the kinds of items.
func CompleteKinds(ctx context.Context, a *cli.App) []cli.Candidate {
	v, err := OpenItems(ctx, a)
	if err != nil {
		return nil
	}
	defer v.Close()
	return cli.Offer(v.Kinds(), func(k *model.Kind) (string, string) { return k.Name, "items in " + k.Dir })
}

// CompleteBundles offers the ids of bundles.
func CompleteBundles(ctx context.Context, a *cli.App) []cli.Candidate {
	ctx, cancel := context.WithTimeout(ctx, CompleteTime)
	defer cancel()
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil
	}
	defer b.Close()
	return cli.Offer(b.Finder(ctx).IDs(ctx), func(id string) (string, string) { return id, "bundle" })
}
