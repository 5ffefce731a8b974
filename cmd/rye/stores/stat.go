package stores

import (
	"context"
	"strconv"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeStatRun struct{ optionalObject }

type storeStatAnswer struct {
	Object *entryLine `json:"object,omitempty"`
	Store  *storeSize `json:"store,omitempty"`
}

type storeSize struct {
	Dir string `json:"dir"`
	disk.Size
	Refs int `json:"refs"`
}

func (s storeStatAnswer) Text(term *cli.Terminal) {
	if o := s.Object; o != nil {
		term.Rows([][]string{{"kind", o.Kind}, {"digest", o.Digest.String()},
			{"size", strconv.FormatInt(*o.Size, 10)}})
		return
	}
	term.Rows([][]string{
		{"store", s.Store.Dir}, {"packs", strconv.Itoa(s.Store.Packs)},
		{"records", strconv.FormatInt(s.Store.Records, 10)},
		{"size", cli.ByteSize(float64(s.Store.Bytes)) + ", uncompressed " + cli.ByteSize(float64(s.Store.Raw))},
		{"refs", strconv.Itoa(s.Store.Refs)},
	})
	if s.Store.Damaged > 0 {
		term.Warn("%s without a readable index: rye store reindex", fault.Count(int64(s.Store.Damaged), "pack"))
	}
}

func (c *storeStatRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Object == "" {
		return sizeOfStore(a)
	}
	var line entryLine
	err := objectArg(c.optionalObject).read(ctx, a, cas.TreeKind, func(s *disk.Store, id cas.ID) error {
		o, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		line = entryLine{Kind: o.Kind.String(), Digest: o.Digest, Size: &o.Size}
		return o.Close()
	})
	if err != nil {
		return nil, err
	}
	return storeStatAnswer{Object: &line}, nil
}

func sizeOfStore(a *cli.App) (cli.Answer, error) {
	s, err := paths.ReadStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	n, err := s.Stat()
	if err != nil {
		return nil, err
	}
	refs, err := s.Refs()
	return storeStatAnswer{Store: &storeSize{s.Dir(), n, len(refs)}}, err
}
