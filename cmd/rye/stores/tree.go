package stores

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeTreeRun struct{ objectArg }

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

func (c *storeTreeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	var ans storeTreeAnswer
	err := c.read(ctx, a, cas.TreeKind, func(s *disk.Store, id cas.ID) error {
		if id.Kind != cas.TreeKind {
			return paths.NotATree(id)
		}
		if err := listable(ctx, s, id); err != nil {
			return err
		}
		ans = storeTreeAnswer{Root: id.Digest, Entries: []entryLine{}}
		return cas.Walk(ctx, s, id, func(path string, e cas.Entry) error {
			ans.Entries = append(ans.Entries, lineOf(path, &e))
			if e.Mode != cas.Dir {
				ans.Files++
				ans.Bytes += e.Size
			}
			return nil
		})
	})
	if err != nil {
		return nil, err // without the sums so far
	}
	return ans, nil
}

// listable refuses a tree with more entries than a walk allows, before the walk starts. It reads each subtree once,
// so it is fast even if entries double with every level. The walk reports other errors.
func listable(ctx context.Context, s cas.Getter, root cas.ID) error {
	known := map[cas.Digest]int{}
	var below func(d cas.Digest, depth int) int
	below = func(digest cas.Digest, depth int) int {
		n, ok := known[digest]
		if ok || depth > portable.MaxPath || ctx.Err() != nil {
			return n
		}
		entries, _ := cas.ReadTree(ctx, s, digest)
		n = len(entries)
		for i := range entries {
			if entries[i].Mode == cas.Dir {
				n = min(n+below(entries[i].Digest, depth+1), cas.MaxWalk+1)
			}
		}
		known[digest] = n
		return n
	}
	if below(root.Digest, 0) > cas.MaxWalk {
		return cas.TooLarge(root)
	}
	return nil
}
