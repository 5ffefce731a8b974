package bundles

import (
	"context"
	"time"

	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/policy"
)

type bundleCosignRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"Bundle; default: the project's."`
	trusts.KeyFlag
}

type bundleCosigned struct {
	Bundle     string `json:"bundle"`
	Version    string `json:"version"`
	Manifest   string `json:"manifest"`
	Key        string `json:"key"`
	Signatures int    `json:"signatures"`
	Changed    bool   `json:"changed"`
	Allowed    bool   `json:"allowed"` // the policy now admits the bundle
}

func (c bundleCosigned) Text(t *cli.Terminal) {
	if !c.Changed {
		t.Note("%s@%s is signed by %s already", c.Bundle, c.Version, paths.Short(c.Key))
		return
	}
	t.Printf("signed  %s@%s  %s\n", c.Bundle, c.Version, fault.Count(int64(c.Signatures), "signature"))
}

func (c *bundleCosignRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	work, found, err := paths.FindBundle(ctx, a, c.Bundle)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	if err := found.NeedV2(); err != nil {
		return nil, err
	}
	if found.Where == find.InArchive || found.Where == find.InBinary {
		return nil, fault.New(fault.Denied,
			"a bundle in the %s can't be changed: sign it in the project or in the store", found.Where).
			Try(fault.Command("rye bundle import", c.Bundle))
	}
	vouching, err := spaces.OpenVouching(a)
	if err != nil {
		return nil, err
	}
	signer, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	progress := a.Progress("verifying", 0)
	defer progress.Done()
	change := newChange(work, found, vouching, signer, progress)
	if err := change.Check(ctx); err != nil {
		return nil, err
	}
	ans := bundleCosigned{Bundle: found.Bundle.BundleID, Version: found.Bundle.Version,
		Manifest: found.Bundle.ID.String(),
		Key:      signer.Public().Fingerprint().String()}
	if ans.Changed, err = change.Sign(); err != nil {
		return nil, err
	}
	if ans.Changed && found.Where == find.InUser {
		again := "rye bundle cosign " + ans.Manifest
		if c.Key != "" {
			again += " --key " + fault.Quote(c.Key)
		}
		return nil, fault.New(fault.Denied,
			"%q is installed and can't be changed: sign it in the store and install it again", found.ID).
			Try(again, "rye bundle install "+ans.Manifest)
	}
	if err := change.WriteSignatures(ctx); err != nil {
		return nil, err
	}
	doc := found.Bundle.Document
	ans.Signatures = len(doc.Signatures)
	e, err := vouching.Options.Trust.ExamineDocument(&doc, found.Bundle.Expires, policy.ToUse)
	if err != nil {
		return nil, err
	}
	if ans.Allowed = e.Decision.Allowed; !ans.Allowed {
		a.Term.Warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
	}
	return ans, nil
}

// newChange prepares a change of a bundle's manifest that signer signs.
func newChange(work *paths.Workspace, found *find.Found, vouching *spaces.Vouching, signer trusts.Signer,
	progress *cli.Progress) *cosign.Change {
	vouching.Options.Progress = progress.Reached()
	return &cosign.Change{Bundle: found, Verify: vouching.Options, Key: signer.Private,
		Time: work.App.Clock().UTC().Truncate(time.Second), Store: work.OpenStore, Counted: progress.Counted}
}
