package bundles

import (
	"context"
	"time"

	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/policy"
)

type bundleCosignRun struct {
	Bundle    string   `arg:"" optional:"" complete:"bundle|path" help:"Bundle; default: the project's."`
	Statement []string `placeholder:"FILE" sep:"none" complete:"file" help:"Also sign this provenance statement (repeatable)."`
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
	// Statements are the files of --statement.
	Statements []cosignedStatement `json:"statements"`
}

type cosignedStatement struct {
	File       string `json:"file"`
	Signatures int    `json:"signatures"`
	Changed    bool   `json:"changed"`
}

func (c bundleCosigned) Text(t *cli.Terminal) {
	line := func(what string, changed bool, signatures int) {
		if !changed {
			t.Note("%s is signed by %s already", what, paths.Short(c.Key))
			return
		}
		t.Printf("signed  %s  %s\n", what, fault.Count(int64(signatures), "signature"))
	}
	line(c.Bundle+"@"+c.Version, c.Changed, c.Signatures)
	for _, s := range c.Statements {
		line(s.File, s.Changed, s.Signatures)
	}
}

func (c *bundleCosignRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	work, found, err := paths.FindBundle(ctx, app, c.Bundle)
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
	vouching, err := spaces.OpenVouching(app)
	if err != nil {
		return nil, err
	}
	signer, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	progress := app.Progress("verifying", 0)
	defer progress.Done()
	change := newChange(work, found, vouching, signer, progress)
	if err := change.Check(ctx); err != nil {
		return nil, err
	}
	ans := bundleCosigned{Bundle: found.Bundle.BundleID, Version: found.Bundle.Version,
		Manifest: found.Bundle.ID.String(),
		Key:      signer.Public().Fingerprint().String(), Statements: []cosignedStatement{}}
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
	statements, err := c.statements(app, change)
	if err != nil {
		return nil, err
	}
	if err := change.WriteSignatures(ctx); err != nil {
		return nil, err
	}
	for i, s := range statements {
		ans.Statements = append(ans.Statements, cosignedStatement{c.Statement[i], s.Signatures, s.Changed})
		if s.Changed {
			if err := osfile.WriteFile(s.at, 0o644, false, osfile.BytesOf(s.Envelope)); err != nil {
				return nil, err
			}
		}
	}
	doc := found.Bundle.Document
	ans.Signatures = len(doc.Signatures)
	e, err := vouching.Options.Trust.ExamineDocument(&doc, found.Bundle.Expires, policy.ToUse)
	if err != nil {
		return nil, err
	}
	if ans.Allowed = e.Decision.Allowed; !ans.Allowed {
		app.Term.Warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
	}
	return ans, nil
}

// signedStatement is a file of --statement, and what is to be written to it.
type signedStatement struct {
	*cosign.Statement
	at string
}

// statements signs the files of --statement. It writes nothing.
func (c *bundleCosignRun) statements(a *cli.App, change *cosign.Change) (all []signedStatement, err error) {
	for _, name := range c.Statement {
		setting := a.Absolute(cli.Setting{Value: name})
		if setting.Err != nil {
			return nil, setting.Err
		}
		text, err := osfile.ReadSmall(setting.Value, attest.MaxEnvelope)
		if err != nil {
			return nil, err
		}
		signed, err := change.SignStatement(text)
		if err != nil {
			return nil, fault.Wrap(err, "%+q isn't signed: %s", name, err)
		}
		all = append(all, signedStatement{signed, setting.Value})
	}
	return all, nil
}

// newChange prepares a change of a bundle's manifest that signer signs.
func newChange(work *paths.Workspace, found *find.Found, vouching *spaces.Vouching, signer trusts.Signer,
	progress *cli.Progress) *cosign.Change {
	vouching.Options.Progress = progress.Reached()
	return &cosign.Change{Bundle: found, Verify: vouching.Options, Key: signer.Private,
		Keys: func(s manifest.Signatures) []manifest.SignerKey { return signs.SignerKeys(work.App, s) },
		Time: work.App.Clock().UTC().Truncate(time.Second), Store: work.OpenStore, Counted: progress.Counted,
		Journal: work.Journal()}
}
