package trusts

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// digest admits a file or a document by its digest alone.
func (c *trustAddRun) digest(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.As == "" || len(c.Names) > 0 || c.Threshold != nil ||
		c.Owner+c.Name+c.NotBefore+c.Expires+c.Accept+c.From+c.Fingerprint+c.Rotation != "" {
		return nil, fault.New(fault.Validation, "a digest needs --as, and takes no other flag").
			Try("rye help trust add")
	}
	d, err := cas.ParseDigest(c.Public)
	if err != nil {
		return nil, fault.New(fault.Validation, "%q is not a digest: %v", c.Public, err).Try("rye help trust add")
	}
	ans, err := paths.EditPolicy(ctx, app, paths.Edit{
		Question: fmt.Sprintf("admit %s as %s?", d.Short(), c.As),
		Edit:     Admits(policy.DigestEntry{Digest: d, As: c.As}),
	})
	if err != nil {
		return nil, err
	}
	return ans, nil
}

// Admits returns the edit that admits digests, and grants permissions to the names of globs.
func Admits(entry policy.DigestEntry, grants ...policy.Grant) trust.Edit {
	return trust.Edit{Change: func(root *policy.Side) (after *policy.Policy, err error) {
		after = root.Policy
		if !entry.Digest.IsZero() {
			after, err = after.AddDigest(entry)
		}
		for _, g := range grants {
			if err == nil {
				after, err = after.SetGrants(g.Glob, g.Allow)
			}
		}
		return after, err
	}}
}
