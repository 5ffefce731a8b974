package stores

import (
	"context"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeRepackRun struct{}

type storeRepackAnswer struct{ disk.RepackResult }

func (s storeRepackAnswer) Text(t *cli.Terminal) {
	t.Printf("%s, before %d; %s, before %s\n", fault.Count(int64(s.PacksAfter), "pack"), s.PacksBefore,
		cli.ByteSize(float64(s.BytesAfter)), cli.ByteSize(float64(s.BytesBefore)))
	for _, d := range s.Damaged {
		t.Warn("%s is damaged and was not changed", d)
	}
}

func (c *storeRepackRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, err := paths.HaveStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.Repack(ctx)
	if err != nil {
		return nil, err
	}
	return storeRepackAnswer{r}, nil
}
