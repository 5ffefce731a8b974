package main

import (
	"context"

	"github.com/rye-build/rye/cas"
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
	t.note("%s, %s, tree %s", counted(int64(s.Files), "file"), byteSize(float64(s.Bytes)), s.Root.Short())
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
	ans := storeTreeAnswer{Root: what.id.Digest, Entries: []entryLine{}}
	var walk func(id cas.ID, above string) error
	walk = func(id cas.ID, above string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries, err := readTree(ctx, s, id)
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			path := above + e.Name
			ans.Entries = append(ans.Entries, lineOf(path, e))
			if e.Mode == cas.Dir {
				if err := walk(e.ID(), path+"/"); err != nil {
					return err
				}
				continue
			}
			ans.Files++
			ans.Bytes += e.Size
		}
		return nil
	}
	if err := walk(what.id, ""); err != nil {
		return nil, err // and no sums of what was read until then
	}
	return ans, nil
}
