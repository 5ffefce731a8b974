package trusts

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

type trustRevokeRun struct {
	What   string `arg:"" name:"key-or-digest" complete:"trusted" help:"Key or digest."`
	Reason string `required:"" placeholder:"TEXT" help:"Reason to show on refusal."`
}

func (c *trustRevokeRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	au, err := paths.Paths(app).RootPolicy()
	if err != nil {
		return nil, err
	}
	revocation, err := c.revocation(app, au.Side.Policy)
	if err != nil {
		return nil, err
	}
	revocation.Reason, revocation.Date = c.Reason, app.Clock().UTC().Truncate(24*time.Hour)
	ans, err := paths.EditPolicy(ctx, app, paths.Edit{
		Question: fmt.Sprintf("revoke %s?", revocation.What()),
		Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy, error) {
			for _, known := range root.Policy.Sections().Revoked {
				if known.What() == revocation.What() {
					return root.Policy, nil
				}
			}
			return root.Policy.Revoke(revocation)
		}},
		Before: func() { app.Term.Note("revokes  %s", revocation.What()) },
	})
	if err != nil {
		return nil, err
	}
	return ans, nil
}

// revocation finds the key or digest that the argument names.
func (c *trustRevokeRun) revocation(app *cli.App, p *policy.Policy) (policy.Revocation, error) {
	k, err := trust.FindKey(p, c.What)
	if err == nil {
		return policy.Revocation{Key: k.Public.Fingerprint()}, nil
	}
	if r, err := policy.ParseRevocation(c.What); err == nil {
		return r, nil
	}
	if f, err := key.ParseFingerprint(c.What); err == nil {
		return policy.Revocation{Key: f}, nil
	}
	if public, err := key.ParsePublic(c.What); err == nil {
		return policy.Revocation{Key: public.Fingerprint()}, nil
	}
	if l, own := openKeyLine(app, c.What); own == nil && l.Fingerprint != "" {
		// Don't guess: after a rotation the policy has a key with a similar name, which is the good one.
		return policy.Revocation{}, fault.New(fault.NotFound, "the policy has no key %q, but you do", c.What).
			Try("rye trust revoke "+l.Fingerprint+" --reason "+fault.Quote(cmp.Or(c.Reason, "REASON")),
				"rye trust list")
	}
	return policy.Revocation{}, err
}
