package bundles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/provenance"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/sbom"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
)

// evidenceFlags say where a document about a bundle goes.
type evidenceFlags struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"Bundle; default: the project's."`
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE instead of standard output."`
	Embed  bool   `help:"Add it to the project's bundle and manifest."`
	trusts.KeyFlag
}

type bundleSbomRun struct {
	Format string `enum:"cyclonedx,spdx" default:"cyclonedx" help:"Format: ${enum}."`
	evidenceFlags
}

// bundleEvidence is a document about a bundle, and where it went.
type bundleEvidence struct {
	Bundle   string          `json:"bundle"`
	Version  string          `json:"version"`
	Manifest string          `json:"manifest"` // that names it, if it is embedded
	Type     string          `json:"type"`
	Digest   string          `json:"digest"` // of the document
	File     string          `json:"file,omitempty"`
	Embedded bool            `json:"embedded"`
	Document json.RawMessage `json:"document,omitempty"` // where it is in no file
}

func (e bundleEvidence) Text(t *cli.Terminal) {
	if e.File == "" {
		t.Printf("%s", cli.Styled(e.Document))
		return
	}
	t.Printf("%s\n", e.File)
	if e.Embedded {
		t.Note("the manifest of %s@%s names it, and is %s now", e.Bundle, e.Version, e.Manifest)
	}
}

func (c *bundleSbomRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, l, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	write, name, kind := sbom.CycloneDX, sbom.CycloneDXName, bundle.TypeCycloneDX
	if c.Format == "spdx" {
		write, name, kind = sbom.SPDX, sbom.SPDXName, bundle.TypeSPDX
	}
	var doc bytes.Buffer
	if err := write(&doc, l.Bundle, sbom.Options{Time: timeOf(a, l.Bundle),
		Rye: cli.ThisVersion().Version}); err != nil {
		return nil, err
	}
	var k trusts.Signer
	if c.Embed {
		if k, err = trusts.SigningKey(ctx, a, c.Key); err != nil {
			return nil, err
		}
	}
	return c.finish(ctx, b, l, name, kind, doc.Bytes(), k)
}

// timeOf is a time that a bundle says itself: that of its first signature.
func timeOf(a *cli.App, b *bundle.Bundle) time.Time {
	at := a.Clock().UTC()
	if a.Env("SOURCE_DATE_EPOCH") != "" {
		return at
	}
	for _, s := range b.Signatures {
		if s.Time.Before(at) {
			at = s.Time
		}
	}
	return at.Truncate(time.Second)
}

// open finds the bundle and reads its manifest, from an archive too.
func (c *evidenceFlags) open(ctx context.Context, a *cli.App) (*paths.Workspace, *find.Found, error) {
	if c.Embed && c.Output != "" {
		return nil, nil, fault.New(fault.Validation, "--embed has a place of its own: -o is for what isn't embedded")
	}
	b, l, err := paths.FindBundle(ctx, a, c.Bundle)
	if err != nil {
		return nil, nil, err
	}
	if err = l.NeedV2(); err == nil {
		err = l.Read(ctx)
	}
	if err == nil && c.Embed && l.Where != find.InProject {
		err = fault.New(fault.Denied, "only the manifest of a bundle in the project is changed, and that is in: %s",
			l.Place)
	}
	if err == nil && l.Bundle == nil {
		err = fault.New(fault.Validation, "%q is an archive: it has to be imported first", l.Place).
			Try("rye bundle import " + fault.Quote(c.Bundle))
	}
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return b, l, nil
}

// finish puts a document where it belongs.
func (c *evidenceFlags) finish(ctx context.Context, b *paths.Workspace, l *find.Found, name, kind string, doc []byte,
	k trusts.Signer) (cli.Answer, error) {
	ans := bundleEvidence{Bundle: l.Bundle.BundleID, Version: l.Bundle.Version, Manifest: l.Bundle.ID.String(),
		Type: kind, Digest: cas.Sum(doc).String(), File: c.Output, Embedded: c.Embed}
	switch {
	case c.Embed:
		v, err := spaces.OpenVouching(b.App)
		if err != nil {
			return nil, err
		}
		p := b.App.Progress("verifying", 0)
		defer p.Done()
		at, lost, err := newChange(b, l, v, k, p).Embed(ctx, name, kind, doc)
		if lost > 0 {
			b.App.Term.Warn("%s of the old manifest: their owners must sign the new one, by rye bundle cosign",
				fault.Count(int64(lost), "signature"))
		}
		if err != nil {
			return nil, err
		}
		ans.File, ans.Manifest = at, l.Bundle.ID.String()
	case c.Output != "":
		file, err := paths.ToWrite(b.App, c.Output)
		if err != nil {
			return nil, err
		}
		if err := osfile.WriteFile(file, 0o644, false, osfile.BytesOf(doc)); err != nil {
			return nil, err
		}
	default:
		ans.Document = doc
	}
	return ans, nil
}

type bundleAttestRun struct {
	Builder    string `placeholder:"URI" help:"Builder's name; default: the signing key's."`
	Invocation string `placeholder:"TEXT" help:"Builder's name for this run."`
	evidenceFlags
}

func (c *bundleAttestRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, l, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if l.Where == find.InBinary {
		return nil, fault.New(fault.Denied, "\"rye/std\" was made with this binary: who has built that can say how")
	}
	k, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	build := provenance.Build{Builder: c.Builder, Invocation: c.Invocation,
		Finished: a.Clock().UTC().Truncate(time.Second)}
	if build.Builder == "" {
		build.Builder = "urn:rye:key:" + k.Public().Fingerprint().String()
	}
	if l.Where == find.InProject {
		text, err := recipe.Text(l.Dir)
		if err == nil {
			build.Recipe = cas.Sum(text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	at := provenance.Beside
	if c.Embed {
		at = provenance.Inside
	}
	envelope, err := provenance.Attest(l.Bundle.FileList, at, build, k.Private)
	if _, ok := errors.AsType[*provenance.Error](err); ok {
		return nil, fault.New(fault.Validation, "--builder is %q, and no URI", build.Builder).From(err).
			Try("rye bundle attest --builder https://ci.example.com/release")
	}
	if err != nil {
		return nil, err
	}
	return c.finish(ctx, b, l, provenance.Name, bundle.TypeEnvelope, envelope, k)
}
