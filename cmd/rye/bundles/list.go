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

// BundleListRun is rye bundle list. Tools of the library use it too (package functions).
type BundleListRun struct {
	All bool `help:"Include the bundles in the store."`
}

// BundleList lists the bundles of the project, of the user space, of the binary and, with --all, of the store.
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

func (l BundleList) Text(term *cli.Terminal) {
	var rows [][]string
	for _, line := range l.Bundles {
		if line.Error != "" {
			rows = append(rows, []string{line.Bundle, "-", "-", line.Where, "can't be read: " + line.Error})
			continue
		}
		words := fault.Count(int64(line.Files), "file")
		if line.Format == sign.V1.String() {
			words += ", v1 format" // a v1 manifest has no sizes
		} else {
			words += ", " + cli.ByteSize(float64(line.Bytes))
		}
		if line.Expired {
			words += ", expired " + line.Expires
		}
		if n := len(line.Previous); n > 0 {
			words += fmt.Sprintf(", %s before", fault.Count(int64(n), "version"))
		}
		if line.Description != "" {
			words += "  " + line.Description
		}
		rows = append(rows, []string{line.Bundle, line.Version, line.Manifest[len("blake3:"):][:12], line.Where,
			words})
	}
	term.Rows(rows)
}
