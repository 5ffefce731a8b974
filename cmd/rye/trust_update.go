package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

func trustUpdateCommand() command {
	return command{
		path: "trust update", group: "trust", help: "Read the revocation lists that the policy names.",
		more: "An issue is taken if it is signed by the key that the policy names, is not older than the last, and is fresh. The last good " +
			"one is kept; past its max-age everything is refused, unless the policy says stale: warn. Lists are read by https and from files; a path " +
			"counts from the policy's directory, and --from FILE stands for what was fetched by other means. What the project's policy alone names is " +
			"never asked for on this machine or in a private network.\n\n" +
			"Examples:\n\n    rye trust update\n    rye trust update acme --from revoked.yaml",
		aka: []string{"trust refresh", "trust fetch"},
		new: func() runner { return new(trustUpdateRun) }, schema: "trust-update/1", output: trustUpdateAnswer{},
	}
}

type trustUpdateRun struct {
	List string `arg:"" optional:"" help:"A list; without it all of them."`
	From string `placeholder:"FILE" complete:"file" help:"Read LIST from FILE this time."`
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

func (*trustUpdateRun) complete(_ context.Context, a *app, _, _ string) (out []candidate) {
	au, err := a.rootAuthority()
	if err != nil {
		return nil
	}
	for _, l := range au.side.Policy.Sections().Lists {
		out = append(out, candidate{l.Name, l.From})
	}
	return out
}

func (c *trustUpdateRun) run(ctx context.Context, a *app) (answer, error) {
	if c.From != "" && c.List == "" {
		return nil, &fault.Error{Code: fault.Validation, Text: "which list is read from " + fault.Quote(c.From) + "?", Hint: []string{"rye trust update LIST --from " + fault.Quote(c.From)}}
	}
	root, err := a.rootAuthority()
	if err != nil {
		return nil, err
	}
	project, err := a.projectAuthority()
	if err != nil {
		return nil, err
	}
	all := []*authority{root}
	if project != nil && project.side.Policy.ID() != root.side.Policy.ID() {
		all = append(all, project)
	}
	ans := trustUpdateAnswer{Lists: []listLine{}, Refused: []refusedList{}}
	var first *fault.Error
	found := 0
	for _, au := range all {
		n, f := c.update(ctx, a, au, root.side.Policy, &ans)
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
		a.term.note("the policy names no revocation lists")
	}
	return ans, nil
}

// update reads the lists of one policy. One that fails doesn't keep the others from being read; the first
// failure is returned and the others are warned of.
func (c *trustUpdateRun) update(ctx context.Context, a *app, au *authority, root *policy.Policy, ans *trustUpdateAnswer) (found int, first *fault.Error) {
	for _, src := range au.side.Policy.Sections().Lists {
		if c.List != "" && c.List != src.Name {
			continue
		}
		found++
		read := src
		if c.From != "" {
			s := a.absolute(setting{value: c.From})
			if s.err != nil {
				return found, classify(s.err)
			}
			read.From = s.value
		}
		known := slices.ContainsFunc(root.Sections().Lists, func(own policy.Source) bool { return own.From == src.From })
		list, changed, err := a.lists().update(ctx, au, read, !known)
		if err != nil {
			f := classify(fmt.Errorf("revocation list %q: %w", src.Name, err))
			if inner := classify(err); inner.Err != err {
				f.Text = fmt.Sprintf("revocation list %q: %s", src.Name, inner.Text)
			}
			reason, _ := f.Details["reason"].(string)
			ans.Refused = append(ans.Refused, refusedList{src.Name, f.Code, reason, f.Text})
			f.Why = append(f.Why, "the last good issue stays in force")
			if first == nil {
				first = f
			} else {
				a.term.warn("%s", f.Text)
			}
			continue
		}
		line := lineOfList(src, list)
		line.Changed = changed
		ans.Lists = append(ans.Lists, line)
	}
	return found, first
}

func (u trustUpdateAnswer) text(t *terminal) {
	var rows [][]string
	for _, l := range u.Lists {
		row := l.row()
		row[0] = l.Name
		if !l.Changed {
			row[1] += ", as before"
		}
		rows = append(rows, row)
	}
	t.rows(rows)
}
