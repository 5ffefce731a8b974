// Verification of the library in the binary.

package bundles

import (
	"context"

	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/manifest/trust"
)

// library verifies rye/std: its files against its manifest, and its items against the policy if one exists.
func (c *BundleVerifyRun) library(ctx context.Context, app *cli.App, found *find.Found) (cli.Answer, error) {
	if len(c.Signer)+len(c.Require)+len(c.Statement) > 0 {
		return nil, fault.New(fault.Validation, "%q is part of this binary and has no other signer",
			find.LibraryID).Try("rye bundle verify " + find.LibraryID)
	}
	t, err := paths.OpenTrust(app)
	if err != nil && !trust.IsMissing(err) {
		return nil, err
	}
	r, err := find.VerifyLibrary(ctx, found.Bundle, t)
	if err != nil {
		return nil, err
	}
	ans := newBundleReport(found, &spaces.Vouching{Trust: t}, r)
	if ans.Extra = c.AllowExtra; r.OK() {
		ans.Trust = "builtin"
	}
	return c.answer(app, ans, r.Failures)
}
