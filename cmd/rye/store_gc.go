package main

import (
	"context"
	"time"

	"github.com/rye-build/rye/cas/disk"
)

func storeGcCommand() command {
	return command{
		path: "store gc", group: "store", help: "Remove what no ref reaches.",
		more: "Only what an earlier gc has already seen unreachable, at least the time of grace ago, is removed. It is safe beside " +
			"running writers and readers.\n\nExamples:\n\n    rye store gc --dry-run\n    rye store gc --grace 0s",
		aka:    []string{"gc", "prune", "store prune"},
		new:    func() runner { return new(storeGcRun) },
		schema: "store-gc/1", output: storeGcAnswer{},
	}
}

type storeGcRun struct {
	Grace  time.Duration `default:"336h" help:"How long an object must have been unreachable (${default})."`
	DryRun bool          `name:"dry-run" help:"Only say what would be removed."`
}

type storeGcAnswer struct {
	DryRun      bool  `json:"dryRun"`
	Roots       int   `json:"roots"`
	Reachable   int64 `json:"reachable"`
	Unreachable int64 `json:"unreachable"`
	Removed     int64 `json:"removed"`
	PacksBefore int   `json:"packsBefore"`
	PacksAfter  int   `json:"packsAfter"`
	BytesBefore int64 `json:"bytesBefore"`
	BytesAfter  int64 `json:"bytesAfter"`
}

func (s storeGcAnswer) text(t *terminal) {
	verb := "removed"
	if s.DryRun {
		verb = "would remove"
	}
	t.printf("%s %d of %d unreachable records; %d are reachable from %d roots\n", verb, s.Removed, s.Unreachable, s.Reachable, s.Roots)
	if !s.DryRun && s.Removed > 0 {
		t.printf("%s, was %s\n", byteSize(float64(s.BytesAfter)), byteSize(float64(s.BytesBefore)))
	}
}

func (c *storeGcRun) run(ctx context.Context, a *app) (answer, error) {
	if c.Grace < 0 {
		return nil, &fault{code: codeValidation, message: "the grace is a time in the future"}
	}
	s, err := a.readStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.GC(ctx, disk.GCOptions{Grace: c.Grace, DryRun: c.DryRun})
	if err != nil {
		return nil, err
	}
	return storeGcAnswer{c.DryRun, r.Roots, r.Reachable, r.Unreachable, r.Removed, r.PacksBefore, r.PacksAfter, r.BytesBefore, r.BytesAfter}, nil
}
