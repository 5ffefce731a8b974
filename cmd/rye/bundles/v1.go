// Verification of bundles of the first format.

package bundles

import (
	"context"

	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/manifest/sign"
)

// verifyV1 verifies a v1 bundle and gives the same report as for v2. It looks for no extra files.
func (c *BundleVerifyRun) verifyV1(ctx context.Context, work *paths.Workspace, found *find.Found,
	vouching *spaces.Vouching) (cli.Answer, error) {
	if len(c.Require)+len(c.Statement) > 0 {
		return nil, fault.New(fault.Validation, "%q is a v1 bundle, which has no evidence", found.ID)
	}
	progress := work.App.Progress("verifying", 0)
	defer progress.Done()
	vouching.Options.Progress = progress.Reached()
	r, same, err := found.VerifyV1(ctx, vouching.Options)
	if err != nil {
		return nil, err
	}
	ans := newBundleReport(found, vouching, same)
	ans.Extra = true // VerifyV1 doesn't look for extra files
	if r.Manifest != nil {
		ans.Of = len(r.Files)
		if ans.Trust == "unsigned" && r.Exam.Signed.Format != sign.None {
			ans.Trust = "refused"
		}
	}
	return c.answer(work.App, ans, same.Failures)
}
