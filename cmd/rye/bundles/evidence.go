// The commands rye bundle sbom and rye bundle attest, which write a document about a bundle.

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

// evidenceFlags are the flags of both commands: the bundle, and where to write the document.
type evidenceFlags struct {
	Bundle string `arg:"" optional:"" complete:"bundle|path" help:"Bundle; default: the project's."`
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE instead of standard output."`
	Embed  bool   `help:"Add it to the project's bundle and manifest."`
	trusts.KeyFlag
}

type bundleSbomRun struct {
	Format string `enum:"cyclonedx,spdx" default:"cyclonedx" help:"Format: ${enum}."`
	evidenceFlags
}

// bundleEvidence is a document about a bundle, and where it was written.
type bundleEvidence struct {
	Bundle   string          `json:"bundle"`
	Version  string          `json:"version"`
	Manifest string          `json:"manifest"` // id of the manifest; with --embed that of the new one
	Type     string          `json:"type"`
	Digest   string          `json:"digest"` // of the document
	File     string          `json:"file,omitempty"`
	Embedded bool            `json:"embedded"`
	Document json.RawMessage `json:"document,omitempty"` // only without File
}

func (e bundleEvidence) Text(t *cli.Terminal) {
	if e.File == "" {
		t.Printf("%s", cli.Styled(e.Document))
		return
	}
	t.Printf("%s\n", e.File)
	if e.Embedded {
		t.Note("the manifest of %s@%s lists it; its new id is %s", e.Bundle, e.Version, e.Manifest)
	}
}

func (c *bundleSbomRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	work, found, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	write, name, kind := sbom.CycloneDX, sbom.CycloneDXName, bundle.TypeCycloneDX
	if c.Format == "spdx" {
		write, name, kind = sbom.SPDX, sbom.SPDXName, bundle.TypeSPDX
	}
	var doc bytes.Buffer
	if err := write(&doc, found.Bundle, sbom.Options{Time: timeOf(app, found.Bundle),
		Rye: cli.ThisVersion().Version}); err != nil {
		return nil, err
	}
	var signer trusts.Signer
	if c.Embed {
		if signer, err = trusts.SigningKey(ctx, app, c.Key); err != nil {
			return nil, err
		}
	}
	return c.finish(ctx, work, found, name, kind, doc.Bytes(), signer)
}

// timeOf returns the time of a bundle's first signature, or the current time if that is earlier. So the same bundle
// gives the same document. SOURCE_DATE_EPOCH overrides it.
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

// open finds the bundle and reads its manifest. The caller closes the workspace.
func (c *evidenceFlags) open(ctx context.Context, a *cli.App) (*paths.Workspace, *find.Found, error) {
	if c.Embed && c.Output != "" {
		return nil, nil, fault.New(fault.Validation, "--embed and -o exclude each other")
	}
	work, found, err := paths.FindBundle(ctx, a, c.Bundle)
	if err != nil {
		return nil, nil, err
	}
	if err = found.NeedV2(); err == nil {
		err = found.Read(ctx)
	}
	if err == nil && c.Embed && found.Where != find.InProject {
		err = fault.New(fault.Denied, "--embed changes only bundles of the project, not one in %s",
			found.Place)
	}
	if err == nil && found.Bundle == nil {
		err = fault.New(fault.Validation, "%q is an archive: import it first", found.Place).
			Try("rye bundle import " + fault.Quote(c.Bundle))
	}
	if err != nil {
		work.Close()
		return nil, nil, err
	}
	return work, found, nil
}

// finish writes a document where the flags say: into the manifest, to a file, or into the answer.
func (c *evidenceFlags) finish(ctx context.Context, work *paths.Workspace, found *find.Found, name, kind string,
	doc []byte,
	signer trusts.Signer) (cli.Answer, error) {
	ans := bundleEvidence{Bundle: found.Bundle.BundleID, Version: found.Bundle.Version,
		Manifest: found.Bundle.ID.String(),
		Type:     kind, Digest: cas.Sum(doc).String(), File: c.Output, Embedded: c.Embed}
	switch {
	case c.Embed:
		vouching, err := spaces.OpenVouching(work.App)
		if err != nil {
			return nil, err
		}
		progress := work.App.Progress("verifying", 0)
		defer progress.Done()
		at, lost, err := newChange(work, found, vouching, signer, progress).Embed(ctx, name, kind, doc)
		if lost > 0 {
			work.App.Term.Warn("the new manifest lacks %s of the old one: their owners must run rye bundle cosign",
				fault.Count(int64(lost), "signature"))
		}
		if err != nil {
			return nil, err
		}
		ans.File, ans.Manifest = at, found.Bundle.ID.String()
	case c.Output != "":
		file, err := paths.ToWrite(work.App, c.Output)
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

func (c *bundleAttestRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	work, found, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	if found.Where == find.InBinary {
		return nil, fault.New(fault.Denied, "can't attest \"rye/std\": it is part of this binary")
	}
	signer, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	build := provenance.Build{Builder: c.Builder, Invocation: c.Invocation,
		Finished: app.Clock().UTC().Truncate(time.Second)}
	if build.Builder == "" {
		build.Builder = "urn:rye:key:" + signer.Public().Fingerprint().String()
	}
	if found.Where == find.InProject {
		text, err := recipe.Text(found.Dir)
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
	envelope, err := provenance.Attest(found.Bundle.FileList, at, build, signer.Private)
	if _, ok := errors.AsType[*provenance.Error](err); ok {
		return nil, fault.New(fault.Validation, "invalid --builder %q: expected a URI", build.Builder).From(err).
			Try("rye bundle attest --builder https://ci.example.com/release")
	}
	if err != nil {
		return nil, err
	}
	return c.finish(ctx, work, found, provenance.Name, bundle.TypeEnvelope, envelope, signer)
}
