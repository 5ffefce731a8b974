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
	Allowed    bool   `json:"allowed"` // the policy lets it be used now
}

func (c bundleCosigned) Text(t *cli.Terminal) {
	if !c.Changed {
		t.Note("%s@%s is signed by %s already", c.Bundle, c.Version, paths.Short(c.Key))
		return
	}
	t.Printf("signed  %s@%s  %s\n", c.Bundle, c.Version, fault.Count(int64(c.Signatures), "signature"))
}

func (c *bundleCosignRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, l, err := paths.FindBundle(ctx, a, c.Bundle)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := l.NeedV2(); err != nil {
		return nil, err
	}
	if l.Where == find.InArchive || l.Where == find.InBinary {
		return nil, fault.New(fault.Denied,
			"a bundle in the %s can't be changed: sign it in the project or in the store", l.Where).
			Try(fault.Command("rye bundle import", c.Bundle))
	}
	v, err := spaces.OpenVouching(a)
	if err != nil {
		return nil, err
	}
	k, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	p := a.Progress("verifying", 0)
	defer p.Done()
	change := newChange(b, l, v, k, p)
	if err := change.Check(ctx); err != nil {
		return nil, err
	}
	ans := bundleCosigned{Bundle: l.Bundle.BundleID, Version: l.Bundle.Version, Manifest: l.Bundle.ID.String(),
		Key: k.Public().Fingerprint().String()}
	if ans.Changed, err = change.Sign(); err != nil {
		return nil, err
	}
	if ans.Changed && l.Where == find.InUser {
		again := "rye bundle cosign " + ans.Manifest
		if c.Key != "" {
			again += " --key " + fault.Quote(c.Key)
		}
		return nil, fault.New(fault.Denied,
			"%q is installed and can't be changed: sign it in the store and install it again", l.ID).
			Try(again, "rye bundle install "+ans.Manifest)
	}
	if err := change.WriteSignatures(ctx); err != nil {
		return nil, err
	}
	doc := l.Bundle.Document
	ans.Signatures = len(doc.Signatures)
	e, err := v.Options.Trust.ExamineDocument(&doc, l.Bundle.Expires, policy.ToUse)
	if err != nil {
		return nil, err
	}
	if ans.Allowed = e.Decision.Allowed; !ans.Allowed {
		a.Term.Warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
	}
	return ans, nil
}

// newChange is a change of a bundle by a key.
func newChange(b *paths.Workspace, l *find.Found, v *spaces.Vouching, k trusts.Signer,
	p *cli.Progress) *cosign.Change {
	v.Options.Progress = p.Reached()
	return &cosign.Change{Bundle: l, Verify: v.Options, Key: k.Private,
		Time: b.App.Clock().UTC().Truncate(time.Second), Store: b.OpenStore, Counted: p.Counted}
}
