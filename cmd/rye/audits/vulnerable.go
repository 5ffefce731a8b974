package audits

import (
	"context"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/lock/registry"
)

type auditVulnerableRun struct{ auditFilter }

type auditVulnerableAnswer struct {
	Calls      []vulnerableCall  `json:"calls"`
	Registries []vulnerableFeed  `json:"registries"` // whose advisories were compared
	Problems   []*record.Problem `json:"problems"`   // damage in the log
}

// A vulnerableCall is a recorded call of something that an advisory covers now.
type vulnerableCall struct {
	Begin    time.Time `json:"begin"`
	Call     string    `json:"call"`
	Ref      string    `json:"ref"`
	Item     string    `json:"item"` // of the bundle: the item called, or one that ran it
	Bundle   string    `json:"bundle"`
	Registry string    `json:"registry"`
	Advisory string    `json:"advisory"`
	Kind     string    `json:"kind"`
	Severity string    `json:"severity"`
	Summary  string    `json:"summary"`
}

type vulnerableFeed struct {
	Registry string    `json:"registry"`
	Counter  int64     `json:"counter"`
	Issued   time.Time `json:"issued"`
}

// Run implements cli.Runner.
func (c *auditVulnerableRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dirs, err := Dirs(app)
	if err != nil {
		return nil, err
	}
	filter, err := c.filter(app.Now())
	if err != nil {
		return nil, err
	}
	feeds, err := paths.UnreadWorkspace(app).Advisories().All()
	if err != nil {
		return nil, err
	}
	answer := auditVulnerableAnswer{Calls: []vulnerableCall{}, Registries: []vulnerableFeed{}}
	for _, feed := range feeds {
		answer.Registries = append(answer.Registries, vulnerableFeed{feed.At.URL, feed.Counter, feed.Issued})
	}
	covering := coveringIn(feeds)
	calls := 0
	answer.Problems, err = EachCall(ctx, dirs.Log, filter, func(r *audit.Record) error {
		found, err := audit.Advised(r, covering)
		if len(found) > 0 {
			calls++
		}
		for _, f := range found {
			answer.Calls = append(answer.Calls, vulnerableCall{r.Begin, r.ID, r.Call.Ref, f.Item, f.Bundle, f.Registry,
				f.Advisory.ID, string(f.Advisory.Kind), f.Advisory.Severity.String(), f.Advisory.Summary})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(feeds) == 0 {
		app.Term.Note("no advisories were read yet: rye trust update reads those that the policy names")
	}
	if damage := damaged(answer.Problems); damage != nil {
		return answer, damage
	}
	if calls > 0 {
		return answer, fault.New(fault.Policy, "an advisory covers what %s ran", fault.Count(int64(calls), "call")).
			Answer().On("calls", calls)
	}
	app.Term.Note("no advisory covers what the recorded calls ran")
	return answer, nil
}

// coveringIn returns a function that finds the advisories that cover a version. It reads those of a bundle once.
func coveringIn(feeds []*registry.Feed) func(registry, bundle, version string) ([]*advisory.Advisory, error) {
	type key struct{ registry, bundle string }
	known := map[key][]*advisory.Advisory{}
	return func(url, bundle, version string) ([]*advisory.Advisory, error) {
		k := key{url, bundle}
		all, read := known[k]
		if !read {
			for _, feed := range feeds {
				if feed.At.URL != url {
					continue
				}
				var err error
				if all, err = feed.Of(bundle); err != nil {
					return nil, err
				}
			}
			known[k] = all
		}
		return registry.Covering(all, version), nil
	}
}

// Text implements cli.Answer.
func (a auditVulnerableAnswer) Text(t *cli.Terminal) {
	var rows [][]string
	for _, c := range a.Calls {
		rows = append(rows, []string{timeText(c.Begin), c.Call, c.Ref, c.Bundle, c.Advisory, c.Severity, c.Summary})
	}
	t.Rows(rows)
}
