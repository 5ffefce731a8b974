package trusts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

func TrustRevokeCommand() cli.Command {
	return cli.Command{
		Path: "trust revoke", Quiet: true, Group: "trust", Help: "Revoke a key or a digest.",
		More: "KEY is its name in the policy, its fingerprint, or the key itself; a digest (blake3:…) is that of a file, of what it is " +
			"without signatures, of a tree or of a document. Whatever else is said of it, and whenever it was signed, it is refused " +
			"from now on.\n\nExamples:\n\n    rye trust revoke alice --reason 'laptop stolen'\n    rye trust revoke blake3:… --reason 'deletes the home directory'",
		New: func() cli.Runner { return new(trustRevokeRun) }, Schema: "trust-change/1", Output: places.TrustChange{},
	}
}

type trustRevokeRun struct {
	What   string `arg:"" name:"key-or-digest" help:"Key or digest."`
	Reason string `required:"" placeholder:"TEXT" help:"Reason to show on refusal."`
}

func (*trustRevokeRun) Complete(_ context.Context, a *cli.App, name, _ string) []cli.Candidate {
	if name == "reason" {
		return nil
	}
	return completePolicy(a)
}

// completePolicy offers the keys of the root policy.
func completePolicy(a *cli.App) (out []cli.Candidate) {
	au, err := places.RootAuthority(a)
	if err != nil {
		return nil
	}
	for _, k := range au.Side.Policy.Sections().Keys {
		out = append(out, cli.Candidate{Value: k.Name, Help: k.Owner})
	}
	return out
}

func (c *trustRevokeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	au, err := places.RootAuthority(a)
	if err != nil {
		return nil, err
	}
	r, err := c.revocation(a, au.Side.Policy)
	if err != nil {
		return nil, err
	}
	r.Reason, r.Date = c.Reason, a.Clock().UTC().Truncate(24*time.Hour)
	ans, err := places.EditPolicy(ctx, a, places.Edit{
		Question: fmt.Sprintf("revoke %s?", r.What()),
		Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy, error) {
			for _, known := range root.Policy.Sections().Revoked {
				if known.What() == r.What() {
					return root.Policy, nil
				}
			}
			return root.Policy.Revoke(r)
		}},
		Before: func() { a.Term.Note("revokes  %s", r.What()) },
	})
	if err != nil {
		return nil, err
	}
	return ans, nil
}

// revocation finds what is meant.
func (c *trustRevokeRun) revocation(a *cli.App, p *policy.Policy) (policy.Revocation, error) {
	if k, ok := p.KeyNamed(c.What); ok {
		return policy.Revocation{Key: k.Public.Fingerprint()}, nil
	}
	if r, err := policy.ParseRevocation(c.What); err == nil {
		return r, nil
	}
	if f, err := key.ParseFingerprint(c.What); err == nil {
		return policy.Revocation{Key: f}, nil
	}
	if k, err := key.ParsePublic(c.What); err == nil {
		return policy.Revocation{Key: k.Fingerprint()}, nil
	}
	_, err := cas.ParseDigest(c.What)
	f := &fault.Error{Code: fault.NotFound, Err: errors.Join(err), Text: fmt.Sprintf("%q is neither a key of the policy nor a fingerprint nor a digest", c.What),
		Hint: []string{"rye trust list"}, Details: map[string]any{"what": c.What}}
	if l, err := openKeyLine(a, c.What); err == nil && l.Fingerprint != "" {
		// After a rotation the policy has a key of much the same name, which is the good one.
		f.Why = []string{fmt.Sprintf("%q is a key of your own, which the policy doesn't name", c.What)}
		f.Hint = []string{"rye trust revoke " + l.Fingerprint + " --reason " + fault.Quote(cmp.Or(c.Reason, "REASON")), "rye trust list"}
	} else if meant := near.Names(c.What, keyNames(p)); len(meant) > 0 {
		f.Why = []string{"did you mean " + meant[0] + "?"}
	}
	return policy.Revocation{}, f
}

func keyNames(p *policy.Policy) (names []string) {
	for _, k := range p.Sections().Keys {
		names = append(names, k.Name)
	}
	return names
}
