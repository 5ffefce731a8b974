package registries

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
)

type auditRun struct {
	dataFlags
	Account string `placeholder:"NAME" help:"What this account did, and what happened to it."`
	Of      string `placeholder:"ID" help:"What happened to a bundle or a namespace."`
	Since   string `placeholder:"TIME" help:"Since TIME: a date, a UTC time, or an age (90m)."`
	Until   string `placeholder:"TIME" help:"Before TIME."`
}

type audited struct {
	Events []registry.Event `json:"events"`
}

// Text implements cli.Answer.
func (a audited) Text(t *cli.Terminal) {
	for _, e := range a.Events {
		line := []string{e.Time.Format(time.RFC3339), e.What, e.Account}
		if e.Name != "" {
			name := e.Name
			if e.Version != "" {
				name += "@" + e.Version
			}
			line = append(line, name)
		}
		if e.Private {
			line = append(line, "private")
		}
		if e.Token != "" {
			line = append(line, e.Token)
		}
		if e.Detail != "" {
			line = append(line, e.Detail)
		}
		if e.Document != nil {
			line = append(line, string(e.Document))
		}
		t.Printf("%s\n", strings.Join(line, "  "))
	}
	t.Note("%s", fault.Count(int64(len(a.Events)), "event"))
}

// Run implements cli.Runner.
func (c *auditRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	filter := registry.Filter{Account: c.Account, Name: c.Of}
	for _, moment := range []struct {
		flag, text string
		to         *time.Time
	}{{"--since", c.Since, &filter.Since}, {"--until", c.Until, &filter.Until}} {
		if moment.text == "" {
			continue
		}
		var err error
		if *moment.to, err = audits.ParseMoment(moment.flag, moment.text, app.Now()); err != nil {
			return nil, err
		}
	}
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	events, err := data.Audit(ctx, filter)
	if err != nil {
		return nil, err
	}
	return audited{events}, nil
}
