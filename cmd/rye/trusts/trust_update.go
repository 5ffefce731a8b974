package trusts

import (
	"context"
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

func TrustUpdateCommand() cli.Command {
	return cli.Command{
		Path: "trust update", Quiet: true, Group: "trust", Help: "Update the revocation lists that the policy names.",
		More: "An issue is taken if it is signed by the key that the policy names, is not older than the last, and is fresh. The last good " +
			"one is kept; past its max-age everything is refused, unless the policy says stale: warn. Lists are read by https and from files; a path " +
			"counts from the policy's directory, and --from FILE stands for what was fetched by other means. What the project's policy alone names is " +
			"never asked for on this machine or in a private network.\n\n" +
			"Examples:\n\n    rye trust update\n    rye trust update acme --from revoked.yaml",
		Aka: []string{"trust refresh", "trust fetch"},
		New: func() cli.Runner { return new(trustUpdateRun) }, Schema: "trust-update/1", Output: trustUpdateAnswer{},
	}
}

type trustUpdateRun struct {
	List string `arg:"" optional:"" help:"List; default: all."`
	From string `placeholder:"FILE" complete:"file" help:"Read LIST from FILE."`
}

type trustUpdateAnswer struct {
	Lists   []listLine    `json:"lists"`
	Refused []refusedList `json:"refused"` // issues that were not taken
}

type refusedList struct {
	Name    string     `json:"name"`
	Code    fault.Code `json:"code"`
	Reason  string     `json:"reason"` // one word for what is wrong with the issue; empty where it couldn't be read
	Message string     `json:"message"`
}

func (*trustUpdateRun) Complete(_ context.Context, a *cli.App, _, _ string) (out []cli.Candidate) {
	au, err := places.RootAuthority(a)
	if err != nil {
		return nil
	}
	for _, l := range au.Side.Policy.Sections().Lists {
		out = append(out, cli.Candidate{Value: l.Name, Help: l.From})
	}
	return out
}

func (c *trustUpdateRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.From != "" && c.List == "" {
		return nil, &fault.Error{Code: fault.Validation, Text: "which list is read from " + fault.Quote(c.From) + "?", Hint: []string{"rye trust update LIST --from " + fault.Quote(c.From)}}
	}
	root, err := places.RootAuthority(a)
	if err != nil {
		return nil, err
	}
	project, err := places.ProjectAuthority(a)
	if err != nil {
		return nil, err
	}
	all := []*trust.Authority{root}
	if project != nil && project.Side.Policy.ID() != root.Side.Policy.ID() {
		all = append(all, project)
	}
	ans := trustUpdateAnswer{Lists: []listLine{}, Refused: []refusedList{}}
	var first *fault.Error
	found := 0
	for _, au := range all {
		n, f := c.update(ctx, a, au, root.Side.Policy, &ans)
		if found += n; first == nil {
			first = f
		}
	}
	switch {
	case first != nil:
		return ans, first
	case c.List != "" && found == 0:
		return nil, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("the policy names no revocation list %q", c.List), Hint: []string{"rye trust list"}}
	case found == 0:
		a.Term.Note("the policy names no revocation lists")
	}
	return ans, nil
}

// update reads all lists of one policy. It returns the first failure and warns of the others.
func (c *trustUpdateRun) update(ctx context.Context, a *cli.App, au *trust.Authority, root *policy.Policy, ans *trustUpdateAnswer) (found int, first *fault.Error) {
	for _, src := range au.Side.Policy.Sections().Lists {
		if c.List != "" && c.List != src.Name {
			continue
		}
		found++
		read := src
		if c.From != "" {
			s := a.Absolute(cli.Setting{Value: c.From})
			if s.Err != nil {
				return found, fault.Of(s.Err)
			}
			read.From = s.Value
		}
		known := slices.ContainsFunc(root.Sections().Lists, func(own policy.Source) bool { return own.From == src.From })
		list, changed, err := places.Lists(a).Update(ctx, au, read, !known)
		if err != nil {
			f := fault.Of(fmt.Errorf("revocation list %q: %w", src.Name, err))
			if inner := fault.Of(err); inner.Err != err {
				f.Text = fmt.Sprintf("revocation list %q: %s", src.Name, inner.Text)
			}
			reason, _ := f.Details["reason"].(string)
			ans.Refused = append(ans.Refused, refusedList{src.Name, f.Code, reason, f.Text})
			f.Why = append(f.Why, "the last good issue stays in force")
			if first == nil {
				first = f
			} else {
				a.Term.Warn("%s", f.Text)
			}
			continue
		}
		line := lineOfList(src, list)
		line.Changed = changed
		ans.Lists = append(ans.Lists, line)
	}
	return found, first
}

func (u trustUpdateAnswer) Text(t *cli.Terminal) {
	var rows [][]string
	for _, l := range u.Lists {
		row := l.row()
		row[0] = l.Name
		if !l.Changed {
			row[1] += ", as before"
		}
		rows = append(rows, row)
	}
	t.Rows(rows)
}
