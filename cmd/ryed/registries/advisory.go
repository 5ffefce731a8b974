package registries

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/manifest/policy"
)

type advisoryAddRun struct {
	dataFlags
	File     string `arg:"" optional:"" complete:"file" help:"OSV document (JSON) about one bundle."`
	Bundle   string `placeholder:"ID" help:"Bundle that it is about."`
	Versions string `placeholder:"RANGE" help:"Affected versions, such as '>=1.2.0 <1.4.2 || =1.0.3'."`
	Severity string `placeholder:"SEVERITY" enum:"low,medium,high,critical," default:"" blank:"" help:"low, medium, high or critical."`
	Kind     string `placeholder:"KIND" enum:"withdrawn,malware,vulnerable," default:"" blank:"" help:"withdrawn, malware or vulnerable."`
	Summary  string `placeholder:"TEXT" help:"What is wrong, in one line."`
}

// An advisoryLine is an advisory in answers.
type advisoryLine struct {
	ID        string    `json:"id"`
	Bundle    string    `json:"bundle"`
	Kind      string    `json:"kind"`
	Severity  string    `json:"severity"`
	Summary   string    `json:"summary"`
	Modified  time.Time `json:"modified"`
	Withdrawn time.Time `json:"withdrawn,omitzero"`
	Private   string    `json:"private,omitempty"` // the private namespace whose list has it
	Affected  []string  `json:"affected"`          // the published versions that it covers now
}

type advisoryAnswer struct{ advisoryLine }

// Text implements cli.Answer.
func (a advisoryAnswer) Text(t *cli.Terminal) {
	t.Printf("%s\n", a.ID)
	switch {
	case !a.Withdrawn.IsZero():
		t.Note("it doesn't count any more, and stays in the list")
	case len(a.Affected) == 0:
		t.Note("%s  %s, %s; no published version is affected", a.Bundle, a.Severity, a.Kind)
	default:
		t.Note("%s  %s, %s; affected: %s", a.Bundle, a.Severity, a.Kind, strings.Join(a.Affected, ", "))
	}
}

type advisoryListAnswer struct {
	Advisories []advisoryLine `json:"advisories"`
}

// Text implements cli.Answer.
func (a advisoryListAnswer) Text(t *cli.Terminal) {
	var lines [][]string
	for _, l := range a.Advisories {
		state := l.Severity
		if !l.Withdrawn.IsZero() {
			state = "not counting"
		}
		line := []string{l.ID, l.Bundle, state, l.Kind, l.Summary}
		if l.Private != "" {
			line = append(line, "private")
		}
		lines = append(lines, line)
	}
	t.Rows(lines)
}

// lineOf returns an advisory with the published versions that it covers.
func lineOf(ctx context.Context, data *data, a *advisory.Advisory, private string) (advisoryLine, error) {
	line := advisoryLine{a.ID, a.Bundle, string(a.Kind), a.Severity.String(), a.Summary, a.Modified, a.Withdrawn,
		private, []string{}}
	versions, err := data.Versions(ctx, registry.Host, a.Bundle)
	if err != nil && fault.CodeOf(err) != fault.NotFound { // all of them may be unpublished
		return line, err
	}
	for _, v := range versions {
		if a.Covers(v.Version) {
			line.Affected = append(line.Affected, v.Version)
		}
	}
	return line, nil
}

// Run implements cli.Runner.
func (c *advisoryAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	draft, err := c.draft(app)
	if err != nil {
		return nil, err
	}
	return c.withData(ctx, app, func(data *data) (*advisory.Advisory, error) { return data.Advise(ctx, draft) })
}

// withData opens the data directory, and answers with the advisory that change returns.
func (f *dataFlags) withData(ctx context.Context, app *cli.App,
	change func(*data) (*advisory.Advisory, error)) (cli.Answer, error) {
	data, err := f.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	a, err := change(data)
	if err != nil {
		return nil, err
	}
	line, err := lineOf(ctx, data, a, "")
	return advisoryAnswer{line}, err
}

// draft returns the advisory that the arguments describe. Flags replace what a file says.
func (c *advisoryAddRun) draft(app *cli.App) (*advisory.Advisory, error) {
	draft := &advisory.Advisory{}
	if c.File != "" {
		path := app.Absolute(cli.Setting{Value: c.File})
		if path.Err != nil {
			return nil, path.Err
		}
		text, err := osfile.ReadSmall(path.Value, advisory.MaxBytes)
		if err != nil {
			return nil, err
		}
		if draft, err = advisory.ParseDraft(text); err != nil {
			return nil, fault.Wrap(err, "%q: %v", c.File, err).On("path", c.File)
		}
	} else if c.Bundle == "" || c.Versions == "" || c.Severity == "" || c.Kind == "" || c.Summary == "" {
		return nil, fault.New(fault.Validation,
			"without FILE an advisory needs --bundle, --versions, --severity, --kind and --summary").
			Try("ryed registry advisory add --help")
	}
	draft.Bundle = cmp.Or(c.Bundle, draft.Bundle)
	draft.Kind = cmp.Or(advisory.Kind(c.Kind), draft.Kind)
	draft.Summary = cmp.Or(c.Summary, draft.Summary)
	if severity, ok := policy.ParseSeverity(c.Severity); ok {
		draft.Severity = severity
	}
	if c.Versions != "" {
		var err error
		if draft.Spans, draft.Versions, err = advisory.ParseVersions(c.Versions); err != nil {
			return nil, err
		}
	}
	return draft, nil
}

type advisoryListRun struct{ dataFlags }

// Run implements cli.Runner.
func (c *advisoryListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	all, err := data.Advisories(ctx)
	if err != nil {
		return nil, err
	}
	answer := advisoryListAnswer{[]advisoryLine{}}
	for _, a := range all {
		line, err := lineOf(ctx, data, a.Advisory, a.Private)
		if err != nil {
			return nil, err
		}
		answer.Advisories = append(answer.Advisories, line)
	}
	if len(all) == 0 {
		app.Term.Note("no advisories")
	}
	return answer, nil
}

type advisoryWithdrawRun struct {
	dataFlags
	ID      string `arg:"" help:"Advisory."`
	Private string `placeholder:"NAMESPACE" help:"The private namespace whose list has it."`
}

// Run implements cli.Runner.
func (c *advisoryWithdrawRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.withData(ctx, app, func(data *data) (*advisory.Advisory, error) {
		return data.WithdrawAdvisory(ctx, c.Private, c.ID)
	})
}

type takedownRun struct {
	dataFlags
	Version string `arg:"" help:"Version: ID@VERSION."`
	Reason  string `required:"" placeholder:"REASON" enum:"secrets,malware" help:"secrets or malware."`
	Summary string `placeholder:"TEXT" help:"What the advisory says, in one line."`
}

// Run implements cli.Runner.
func (c *takedownRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	id, version, ok := strings.Cut(c.Version, "@")
	if !ok {
		return nil, fault.New(fault.Validation, "%q is not a version of a bundle: expected ID@VERSION", c.Version)
	}
	if err := app.Confirm(ctx, "take down "+c.Version+"? Its archive is removed for good."); err != nil {
		return nil, err
	}
	return c.withData(ctx, app, func(data *data) (*advisory.Advisory, error) {
		return data.Takedown(ctx, id, version, registry.Reason(c.Reason), c.Summary)
	})
}
