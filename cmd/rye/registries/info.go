package registries

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type infoRun struct {
	Bundle string `arg:"" help:"Id of a bundle."`
	registryFlag
}

type infoAnswer struct {
	Registry string `json:"registry"`
	registry.Bundle
}

// Text implements cli.Answer.
func (i infoAnswer) Text(t *cli.Terminal) {
	t.Printf("%s  owners: %s\n", i.Bundle.Bundle, strings.Join(i.Owners, ", "))
	for _, v := range i.Versions {
		state := ""
		if v.Yanked > 0 {
			state = "  yanked"
		}
		t.Printf("  %s  %s  by %s  %s%s\n", v.Version, v.Time.Format(time.DateOnly), v.By,
			cli.ByteSize(float64(v.Size)), state)
	}
	t.Note("as %s says; a lock believes what its log proves", i.Registry)
}

// Run implements cli.Runner.
func (c *infoRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := c.at(app, c.Bundle)
	if err != nil {
		return nil, err
	}
	session, err := openToRead(ctx, app, at, c.Registry != "")
	if err != nil {
		return nil, err
	}
	found, err := session.Bundle(ctx, c.Bundle)
	if fault.CodeOf(err) == fault.NotFound {
		return nil, fault.New(fault.NotFound, "the registry %q has no bundle %q", at, c.Bundle).From(err).
			On("bundle", c.Bundle).On("registry", at).Try("rye docs registry")
	}
	if err != nil {
		return nil, err
	}
	return infoAnswer{at, *found}, nil
}
