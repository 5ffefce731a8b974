package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

func keyRemoveCommand() command {
	return command{
		path: "key remove", group: "trust", help: "Forget a key for good.",
		more: "It asks first, or wants --yes: without a copy nobody can ever sign with it again. What it has signed stays signed, and the " +
			"policy keeps what it says of it.\n\nExamples:\n\n    rye key remove old\n    rye key remove old --yes",
		aka: []string{"key rm", "key delete"},
		new: func() runner { return new(keyRemoveRun) }, schema: "key-remove/1", output: keyShowAnswer{},
	}
}

type keyRemoveRun struct {
	Name string `arg:"" help:"A key."`
}

func (*keyRemoveRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeKeys(a)
}

func (c *keyRemoveRun) run(ctx context.Context, a *app) (answer, error) {
	dir, err := a.keysDir()
	if err != nil {
		return nil, err
	}
	l, err := a.keyLine(c.Name)
	if err != nil {
		return nil, err
	}
	if err := a.confirm(ctx, fmt.Sprintf("remove the key %q, %s, for good?", c.Name, orDash(l.Fingerprint))); err != nil {
		return nil, err
	}
	if err := dir.Remove(c.Name); err != nil {
		return nil, a.noKey(c.Name, err)
	}
	a.term.note("removed the key %q, %s", c.Name, orDash(l.Fingerprint))
	if l.Default {
		a.term.note("no key signs now where none is named: --key NAME names one")
	}
	if len(l.Vouches) > 0 && l.Fault == "" {
		a.term.note("the policy still lets it vouch for %s: %s", strings.Join(l.Vouches, " "), strings.Join(l.leave(a.rootSide().Policy), ", and then "))
	}
	return keyShowAnswer{l}, nil
}

// leave are the commands that take a key out of a policy. A rule that asks for it goes first.
func (l *keyLine) leave(p *policy.Policy) (commands []string) {
	for _, r := range p.Sections().Rules {
		if slices.Contains(r.Keys, l.InPolicy) && len(r.Keys) <= r.Threshold {
			commands = append(commands, "rye trust remove --from names "+fault.Quote(r.Glob))
		}
	}
	return append(commands, "rye trust remove "+fault.Quote(l.InPolicy))
}
