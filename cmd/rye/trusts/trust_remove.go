package trusts

import (
	"context"
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

type trustRemoveRun struct {
	Entry string `arg:"" complete:"trusted" help:"Key's name or first digits, or an entry of --from's section."`
	From  string `enum:"keys,names,digests,revoked,lists,override,inside,grants,ask" default:"keys" help:"Section of the policy: ${enum}."`
}

// explained adds to the error of an edit what would help.
func (c *trustRemoveRun) explained(p *policy.Policy, err error) error {
	failure, ok := err.(*fault.Error)
	if !ok {
		return err // the remaining policy is invalid
	}
	if c.From != "keys" {
		failure.Code, failure.Hint = fault.NotFound, []string{"rye trust list"}
		return failure
	}
	for _, r := range p.Sections().Rules {
		if slices.Contains(r.Keys, c.Entry) && len(r.Keys) <= r.Threshold {
			failure.Hint = append(failure.Hint, "rye trust remove --from names "+fault.Quote(r.Glob),
				"rye trust add OTHER --names "+fault.Quote(r.Glob))
			break
		}
	}
	return failure
}

func (c *trustRemoveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	ans, err := paths.EditPolicy(ctx, a, paths.Edit{
		Question: fmt.Sprintf("remove %q from %q?", c.Entry, c.From),
		Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy, error) {
			if c.From == "keys" {
				k, err := trust.FindKey(root.Policy, c.Entry)
				if err != nil {
					return nil, err
				}
				c.Entry = k.Name
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
