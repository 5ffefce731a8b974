package stores

import (
	"context"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeReindexRun struct{}

type storeReindexAnswer struct{ disk.ReindexResult }

func (s storeReindexAnswer) Text(t *cli.Terminal) {
	t.Printf("the indexes of %s are right, %d were rebuilt\n", fault.Count(int64(s.Packs), "pack"), len(s.Rebuilt))
	for _, l := range s.Lost {
		t.Warn("parts of %s could not be read; it is kept as %s.damaged", l, l)
	}
}

func (c *storeReindexRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, err := paths.HaveStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.Reindex(ctx)
	if err != nil {
		return nil, err
	}
	return storeReindexAnswer{r}, nil
}
