package main

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

func storeTreeCommand() command {
	return command{
		path: "store tree", group: "store", help: "List a tree with everything below it.",
		more:   "Examples:\n\n    rye store tree app\n    rye store tree app:lib --json",
		new:    func() runner { return new(storeTreeRun) },
		schema: "store-tree/1", output: storeTreeAnswer{},
	}
}

type storeTreeRun struct {
	Object string `arg:"" help:"A digest, the beginning of one, or a ref; :PATH goes into a tree."`
}

type storeTreeAnswer struct {
	Root    cas.Digest  `json:"root"`
	Files   int         `json:"files"`
	Bytes   int64       `json:"bytes"`
	Entries []entryLine `json:"entries"`
}

func (s storeTreeAnswer) text(t *terminal) {
	storeLsAnswer{s.Entries}.text(t)
	t.note("%s, %s, tree %s", fault.Count(int64(s.Files), "file"), byteSize(float64(s.Bytes)), s.Root.Short())
}

func (c *storeTreeRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeObjects(a)
}

func (c *storeTreeRun) run(ctx context.Context, a *app) (answer, error) {
	s, err := a.readStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	what, err := resolve(ctx, s, c.Object, cas.TreeKind, cas.Blob, cas.Document)
	if err != nil {
		return nil, err
	}
	if what.id.Kind != cas.TreeKind {
		return nil, notATree(what.id)
	}
	if err := listable(ctx, s, what.id); err != nil {
		return nil, err
	}
	ans := storeTreeAnswer{Root: what.id.Digest, Entries: []entryLine{}}
	err = cas.Walk(ctx, s, what.id, func(path string, e cas.Entry) error {
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

// listable refuses a tree that stands for more than can be walked, before the walk comes to the end of its patience. Each
// tree is read once, and those of one that doubles with every level are few. What is wrong with one the walk says.
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
		return &cas.LimitError{Root: root}
	}
	return nil
}
