package registries

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
)

type verifyRun struct{ dataFlags }

type verified struct {
	Name string `json:"name"`
	registry.Check
}

// Text implements cli.Answer.
func (v verified) Text(t *cli.Terminal) {
	for _, line := range v.Wrong {
		t.Printf("%s\n", line)
	}
	if len(v.Wrong) == 0 {
		t.Printf("good  %s  %s, %s, %s\n", v.Name, fault.Count(v.Entries, "entry"),
			fault.Count(int64(v.Versions), "version"), cli.ByteSize(float64(v.Bytes)))
	}
}

// Run implements cli.Runner.
func (c *verifyRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	check, err := data.Verify(ctx)
	if err != nil {
		return nil, err
	}
	answer := verified{data.Registry.Name(), *check}
	if len(check.Wrong) > 0 {
		return answer, fault.New(fault.Integrity, "%s in the registry's files differ from its rows",
			fault.Count(int64(len(check.Wrong)), "thing")).Answer()
	}
	return answer, nil
}
