package main

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
)

func storeRepackCommand() command {
	return command{
		path: "store repack", group: "store", help: "Write many small packs as few large ones.",
		more:   "Writers merge packs by themselves; this goes on until nothing more can be merged.\n\nExamples:\n\n    rye store repack",
		aka:    []string{"store optimise", "store optimize", "store compact"},
		new:    func() runner { return new(storeRepackRun) },
		schema: "store-repack/1", output: storeRepackAnswer{},
	}
}

type storeRepackRun struct{}

type storeRepackAnswer struct {
	PacksBefore int      `json:"packsBefore"`
	PacksAfter  int      `json:"packsAfter"`
	BytesBefore int64    `json:"bytesBefore"`
	BytesAfter  int64    `json:"bytesAfter"`
	Damaged     []string `json:"damaged,omitempty"` // packs left as they are
}

func (s storeRepackAnswer) text(t *terminal) {
	t.printf("%s, before %d; %s, before %s\n", fault.Count(int64(s.PacksAfter), "pack"), s.PacksBefore, byteSize(float64(s.BytesAfter)), byteSize(float64(s.BytesBefore)))
	for _, d := range s.Damaged {
		t.warn("%s is damaged and was left as it is", d)
	}
}

func (c *storeRepackRun) run(ctx context.Context, a *app) (answer, error) {
	s, err := a.haveStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.Repack(ctx)
	if err != nil {
		return nil, err
	}
	return storeRepackAnswer{r.PacksBefore, r.PacksAfter, r.BytesBefore, r.BytesAfter, r.Damaged}, nil
}
