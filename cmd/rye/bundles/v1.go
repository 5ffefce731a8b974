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

// verifyV1 verifies a v1 bundle and reports as for v2.
func (c *BundleVerifyRun) verifyV1(ctx context.Context, b *paths.Workspace, l *find.Found,
	v *spaces.Vouching) (cli.Answer, error) {
	if len(c.Require)+len(c.Statement) > 0 {
		return nil, fault.New(fault.Validation, "%q is a v1 bundle, which has no evidence", l.ID)
	}
	p := b.App.Progress("verifying", 0)
	defer p.Done()
	v.Options.Progress = p.Reached()
	r, same, err := l.VerifyV1(ctx, v.Options)
	if err != nil {
		return nil, err
	}
	ans := newBundleReport(l, v, same)
	ans.Extra = true // what else is there was never looked for
	if r.Manifest != nil {
		ans.Of = len(r.Files)
		if ans.Trust == "unsigned" && r.Exam.Signed.Format != sign.None {
			ans.Trust = "refused"
		}
	}
	return c.answer(b.App, ans, same.Failures)
}
