package stores

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
)

func StoreTreeCommand() cli.Command {
	return cli.Command{
		Path: "store tree", Group: "store", Help: "List a tree recursively.",
		More:   "Examples:\n\n    rye store tree app\n    rye store tree app:lib --json",
		New:    func() cli.Runner { return new(storeTreeRun) },
		Schema: "store-tree/1", Output: storeTreeAnswer{},
	}
}

type storeTreeRun struct {
	Object string `arg:"" help:"Digest, digest prefix or ref; :PATH selects within a tree."`
}

type storeTreeAnswer struct {
	Root    cas.Digest  `json:"root"`
	Files   int         `json:"files"`
	Bytes   int64       `json:"bytes"`
	Entries []entryLine `json:"entries"`
}

func (s storeTreeAnswer) Text(t *cli.Terminal) {
	storeLsAnswer{s.Entries}.Text(t)
	t.Note("%s, %s, tree %s", fault.Count(int64(s.Files), "file"), cli.ByteSize(float64(s.Bytes)), s.Root.Short())
}

func (c *storeTreeRun) Complete(_ context.Context, a *cli.App, _, _ string) []cli.Candidate {
	return places.CompleteObjects(a)
}

func (c *storeTreeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, err := places.ReadStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	what, err := places.Resolve(ctx, s, c.Object, cas.TreeKind, cas.Blob, cas.Document)
	if err != nil {
		return nil, err
	}
	if what.Id.Kind != cas.TreeKind {
		return nil, places.NotATree(what.Id)
	}
	if err := listable(ctx, s, what.Id); err != nil {
		return nil, err
	}
	ans := storeTreeAnswer{Root: what.Id.Digest, Entries: []entryLine{}}
	err = cas.Walk(ctx, s, what.Id, func(path string, e cas.Entry) error {
		ans.Entries = append(ans.Entries, lineOf(path, &e))
		if e.Mode != cas.Dir {
			ans.Files++
			ans.Bytes += e.Size
		}
		return nil
	})
	if err != nil {
		return nil, err // and no sums of what was read until then
	}
	return ans, nil
}

// listable refuses a tree with more entries than a walk allows, before the walk starts. It reads each subtree once, so it is
// fast even if entries double with every level. It leaves other errors to the walk.
func listable(ctx context.Context, s cas.Getter, root cas.ID) error {
	known := map[cas.Digest]int{}
	var below func(d cas.Digest, depth int) int
	below = func(d cas.Digest, depth int) int {
		n, ok := known[d]
		if ok || depth > portable.MaxPath || ctx.Err() != nil {
			return n
		}
		entries, _ := cas.ReadTree(ctx, nil, s, d)
		n = len(entries)
		for i := range entries {
			if entries[i].Mode == cas.Dir {
				n = min(n+below(entries[i].Digest, depth+1), cas.MaxWalk+1)
			}
		}
		known[d] = n
		return n
	}
	if below(root.Digest, 0) > cas.MaxWalk {
		return cas.TooLarge(root)
	}
	return nil
}
