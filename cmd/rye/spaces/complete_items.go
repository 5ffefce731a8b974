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

// CompleteRefs offers the refs that begin with prefix, or only kinds until a kind is typed. With own it offers only
// items of the space that this user may change. It goes by the names of files.
func CompleteRefs(ctx context.Context, a *cli.App, prefix string, own bool) (out []cli.Candidate) {
	kind, _, typed := strings.Cut(prefix, ":")
	if !typed {
		for _, k := range CompleteKinds(ctx, a) {
			out = append(out, cli.Candidate{Value: k.Value + ":", Help: k.Help})
		}
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, CompleteTime)
	defer cancel()
	v, err := OpenItems(ctx, a)
	if err != nil {
		return nil
	}
	defer v.Close()
	if _, ok := v.Kind(kind); !ok {
		return nil
	}
	l, err := v.Files(ctx, kind)
	if err != nil {
		return nil
	}
	l.Files = slices.DeleteFunc(l.Files, func(f ai.File) bool {
		return !strings.HasPrefix(f.Ref.String(), prefix) || own && f.Space != v.Own()
	})
	if len(l.Files) <= maxRead {
		assets := make([]bool, len(l.Files))
		if err := v.Each(ctx, l.Files, func(i int, _ *ai.Item, err error) {
			assets[i] = errors.Is(err, ai.ErrAsset)
		}); err == nil {
			for i, asset := range assets {
				if asset {
					l.Files[i].ID = ""
				}
			}
		}
	}
	for _, f := range l.Files {
		// Files of several spaces with one ref are adjacent.
		if ref := f.Ref.String(); f.ID != "" && len(out) < maxOffered &&
			(len(out) == 0 || out[len(out)-1].Value != ref) {
			out = append(out, cli.Candidate{Value: ref, Help: f.Space.Label})
		}
	}
	return out
}

// CompleteIDs offers the ids of a kind, for commands that don't need the kind. Once a kind is typed it offers refs.
func CompleteIDs(ctx context.Context, a *cli.App, kind, prefix string) []cli.Candidate {
	if strings.Contains(prefix, ":") {
		return CompleteRefs(ctx, a, prefix, false)
	}
	out := CompleteRefs(ctx, a, kind+":"+prefix, false)
	for i := range out {
		out[i].Value = strings.TrimPrefix(out[i].Value, kind+":")
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
