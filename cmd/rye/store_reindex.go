package main

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
)

func storeReindexCommand() command {
	return command{
		path: "store reindex", group: "store", help: "Make lost or damaged indexes again, from the packs.",
		more:   "Examples:\n\n    rye store reindex",
		new:    func() runner { return new(storeReindexRun) },
		schema: "store-reindex/1", output: storeReindexAnswer{},
	}
}

type storeReindexRun struct{}

type storeReindexAnswer struct {
	Packs   int      `json:"packs"`
	Rebuilt []string `json:"rebuilt"`
	Lost    []string `json:"lost"` // parts of these could not be read; they are kept as *.damaged
}

func (s storeReindexAnswer) text(t *terminal) {
	t.printf("the indexes of %s are right, %d were made again\n", fault.Count(int64(s.Packs), "pack"), len(s.Rebuilt))
	for _, l := range s.Lost {
		t.warn("parts of %s could not be read; it is kept as %s.damaged", l, l)
	}
}

func (c *storeReindexRun) run(ctx context.Context, a *app) (answer, error) {
	s, err := a.haveStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.Reindex(ctx)
	if err != nil {
		return nil, err
	}
	return storeReindexAnswer{r.Packs, append([]string{}, r.Rebuilt...), append([]string{}, r.Lost...)}, nil
}
