package registries

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
)

type mirrorRun struct {
	dataFlags
	Dir string `arg:"" complete:"dir" help:"Directory of the copy."`
}

type mirrored struct {
	Dir string `json:"dir"`
	registry.Mirrored
}

// Text implements cli.Answer.
func (m mirrored) Text(t *cli.Terminal) {
	t.Printf("%s\n", m.Dir)
	t.Note("copied %s, %s; removed %d", fault.Count(int64(m.Copied), "file"), cli.ByteSize(float64(m.Bytes)),
		m.Removed)
}

// Run implements cli.Runner.
func (c *mirrorRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	to := app.Absolute(cli.Setting{Value: c.Dir})
	if to.Err != nil {
		return nil, to.Err
	}
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	copied, err := blobs.OpenLocal(to.Value, nil)
	if err != nil {
		return nil, err
	}
	done, err := data.Mirror(ctx, copied)
	if err != nil {
		return nil, err
	}
	return mirrored{c.Dir, *done}, nil
}
