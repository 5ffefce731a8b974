package bundles

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/sign"
)

type BundleListRun struct {
	All bool `help:"Include the bundles in the store."`
}

type BundleList struct {
	Bundles []find.Line `json:"bundles"`
}

func (c *BundleListRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	lines, err := b.Finder(ctx).List(ctx, c.All)
	return BundleList{lines}, err
}

func (l BundleList) Text(t *cli.Terminal) {
	var rows [][]string
	for _, b := range l.Bundles {
		if b.Error != "" {
			rows = append(rows, []string{b.Bundle, "-", "-", b.Where, "can't be read: " + b.Error})
			continue
		}
		words := fault.Count(int64(b.Files), "file")
		if b.Format == sign.V1.String() {
			words += ", v1 format" // which knows no sizes
		} else {
			words += ", " + cli.ByteSize(float64(b.Bytes))
		}
		if b.Expired {
			words += ", expired " + b.Expires
		}
		if n := len(b.Previous); n > 0 {
			words += fmt.Sprintf(", %s before", fault.Count(int64(n), "version"))
		}
		if b.Description != "" {
			words += "  " + b.Description
		}
		rows = append(rows, []string{b.Bundle, b.Version, b.Manifest[len("blake3:"):][:12], b.Where, words})
	}
	t.Rows(rows)
}
