package trusts

import (
	"context"
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

func TrustRemoveCommand() cli.Command {
	return cli.Command{
		Path: "trust remove", Quiet: true, Group: "trust", Help: "Remove a key or another entry from the policy.",
		More: "A key goes out of the rules that name it as well; a rule that could not reach its threshold without it must be removed or " +
			"changed first. A removed key is a stranger's, not a revoked one: see rye trust revoke. Removing a rule lets a less " +
			"particular one decide.\n\nExamples:\n\n    rye trust remove alice\n    rye trust remove --from names 'acme/**'",
		Aka: []string{"trust rm", "trust delete"},
		New: func() cli.Runner { return new(trustRemoveRun) }, Schema: "trust-change/1", Output: places.TrustChange{},
	}
}

type trustRemoveRun struct {
	Entry string `arg:"" help:"Key's name, or an entry of the section given by --from."`
	From  string `enum:"keys,names,digests,revoked,lists,override,inside,grants" default:"keys" help:"Section of the policy: ${enum}."`
}

func (*trustRemoveRun) Complete(_ context.Context, a *cli.App, _, _ string) []cli.Candidate {
	return completePolicy(a)
}

// explained adds to the refusal of an edit what would help.
func (c *trustRemoveRun) explained(p *policy.Policy, err error) error {
	f, ok := err.(*fault.Error)
	if !ok {
		return err // of what is left, which is no policy
	}
	if c.From != "keys" {
		f.Code, f.Hint = fault.NotFound, []string{"rye trust list"}
		return f
	}
	for _, r := range p.Sections().Rules {
		if slices.Contains(r.Keys, c.Entry) && len(r.Keys) <= r.Threshold {
			f.Hint = append(f.Hint, "rye trust remove --from names "+fault.Quote(r.Glob), "rye trust add OTHER --names "+fault.Quote(r.Glob))
			break
		}
	}
	return f
}

func (c *trustRemoveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	ans, err := places.EditPolicy(ctx, a, places.Edit{
		Question: fmt.Sprintf("remove %q from %q?", c.Entry, c.From),
		Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy, error) {
			if k, ok := root.Policy.KeyNamed(c.Entry); c.From == "keys" && !ok {
				f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("the policy has no key %q", c.Entry), Hint: []string{"rye trust list"}}
				if meant := near.Names(c.Entry, keyNames(root.Policy)); len(meant) > 0 {
					f.Why = []string{"did you mean " + meant[0] + "?"}
				}
				return nil, f
			} else if ok && c.From == "keys" {
				a.Term.Note("fingerprint  %s", k.Public.Fingerprint())
			}
			after, err := root.Policy.Remove(c.From, c.Entry)
			return after, c.explained(root.Policy, err)
		}},
	})
	if err != nil {
		return nil, err
	}
	return ans, nil
}
