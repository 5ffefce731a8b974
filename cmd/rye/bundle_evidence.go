package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/provenance"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/sbom"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

func bundleSbomCommand() command {
	return command{
		path: "bundle sbom", group: "bundles", help: "Write the list of parts of a bundle, as CycloneDX or SPDX.",
		more: "It says what the manifest says: no file is read, and the same bundle gives the same bytes. The time in it is that of the manifest's first " +
			"signature, or SOURCE_DATE_EPOCH. --embed puts it beside the project's manifest and names it there, so that rye bundle verify --require " +
			"sbom finds it; the manifest then has another id and is signed anew.\n\nExamples:\n\n    rye bundle sbom acme/deploy > sbom.json\n" +
			"    rye bundle sbom --format spdx -o sbom.spdx.json\n    rye bundle sbom --embed",
		aka: []string{"sbom", "bundle bom"},
		new: func() runner { return new(bundleSbomRun) }, schema: "bundle-sbom/1", output: bundleEvidence{},
	}
}

// evidenceFlags say where a document about a bundle goes.
type evidenceFlags struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"A bundle; the project's when left out."`
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE instead of standard output."`
	Embed  bool   `help:"Put it beside the project's manifest and name it there."`
	keyFlag
}

type bundleSbomRun struct {
	Format string `enum:"cyclonedx,spdx" default:"cyclonedx" help:"Which format: ${enum}."`
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

func (e bundleEvidence) text(t *terminal) {
	if e.File == "" {
		t.printf("%s", styled(e.Document))
		return
	}
	t.printf("%s\n", e.File)
	if e.Embedded {
		t.note("the manifest of %s@%s names it, and is %s now", e.Bundle, e.Version, e.Manifest)
	}
}

func (c *evidenceFlags) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

func (c *bundleSbomRun) run(ctx context.Context, a *app) (answer, error) {
	b, l, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.close()
	write, name, kind := sbom.CycloneDX, sbom.CycloneDXName, bundle.TypeCycloneDX
	if c.Format == "spdx" {
		write, name, kind = sbom.SPDX, sbom.SPDXName, bundle.TypeSPDX
	}
	var doc bytes.Buffer
	if err := write(&doc, l.read, sbom.Options{Time: a.timeOf(l.read), Rye: thisVersion().Version}); err != nil {
		return nil, err
	}
	var k signer
	if c.Embed {
		if k, err = a.signingKey(ctx, c.Key); err != nil {
			return nil, err
		}
	}
	return c.finish(ctx, b, l, name, kind, doc.Bytes(), k)
}

// timeOf is a time that a bundle says itself: that of its first signature.
func (a *app) timeOf(b *bundle.Bundle) time.Time {
	at := a.clock().UTC()
	if a.env("SOURCE_DATE_EPOCH") != "" {
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
func (c *evidenceFlags) open(ctx context.Context, a *app) (*bundles, *located, error) {
	if c.Embed && c.Output != "" {
		return nil, nil, &fault.Error{Code: fault.Validation, Text: "--embed has a place of its own: -o is for what isn't embedded"}
	}
	b, err := a.bundles()
	if err != nil {
		return nil, nil, err
	}
	l, err := b.locate(ctx, c.Bundle)
	if err == nil {
		err = l.needToday()
	}
	if err == nil {
		err = b.whole(ctx, l)
	}
	if err == nil && c.Embed && l.where != inProject {
		err = &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("only the manifest of a bundle in the project is changed, and that is in: %s", l.place)}
	}
	if err == nil && l.read == nil {
		err = &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is an archive: it has to be imported first", l.place), Hint: []string{"rye bundle import " + fault.Quote(c.Bundle)}}
	}
	if err != nil {
		b.close()
		return nil, nil, err
	}
	return b, l, nil
}

// finish puts a document where it belongs.
func (c *evidenceFlags) finish(ctx context.Context, b *bundles, l *located, name, kind string, doc []byte, k signer) (answer, error) {
	ans := bundleEvidence{Bundle: l.read.BundleID, Version: l.read.Version, Manifest: l.read.ID.String(), Type: kind, Digest: cas.Sum(doc).String(), File: c.Output, Embedded: c.Embed}
	switch {
	case c.Embed:
		at, id, err := b.embed(ctx, l, k, name, kind, doc)
		if err != nil {
			return nil, err
		}
		ans.File, ans.Manifest = at, id.String()
	case c.Output != "":
		file, err := b.app.toWrite(c.Output)
		if err != nil {
			return nil, err
		}
		if err := writeFile(file, 0o644, false, bytesOf(doc)); err != nil {
			return nil, err
		}
	default:
		ans.Document = doc
	}
	return ans, nil
}

// embed names a document in the manifest of a project's bundle: first the document is there, then the manifest that
// names it.
func (b *bundles) embed(ctx context.Context, l *located, k signer, name, kind string, doc []byte) (string, cas.Digest, error) {
	v, err := b.app.vouching()
	if err != nil {
		return "", cas.Digest{}, err
	}
	if err := b.checkContent(ctx, l, v); err != nil {
		return "", cas.Digest{}, err
	}
	body, list, err := provenance.Embed(l.read, provenance.Evidence(name, kind, doc))
	if err != nil {
		return "", cas.Digest{}, err
	}
	if list.ID == l.read.ID {
		list.Document = l.read.Document // it is named already
	}
	others := len(l.read.Signatures)
	if err := list.Sign(k.Private, b.app.clock().UTC().Truncate(time.Second)); err != nil {
		return "", cas.Digest{}, err
	}
	if others > len(list.Signatures) {
		b.app.term.warn("%s of the manifest before: whoever signed that has to sign this one, by rye bundle cosign", fault.Count(int64(others), "signature"))
	}
	home, err := bundle.ManifestPath(l.id)
	if err != nil {
		return "", cas.Digest{}, err
	}
	at := path.Join(path.Dir(home), name)
	was := l.read.ID
	l.read.FileList = list
	err = b.changeManifest(ctx, l, was, body, withKey(v.options.Find, k.Public()), func(d *confined) error {
		if err := d.write(at, 0o644, false, doc); err != nil {
			return err
		}
		return b.keepEmbedded(ctx, l, was, body, doc, v)
	})
	return at, list.ID, err
}

// keepEmbedded keeps the changed manifest in the store, if that has the one before.
func (b *bundles) keepEmbedded(ctx context.Context, l *located, was cas.Digest, body, doc []byte, v *vouching) error {
	s, err := b.store(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := s.Ref(install.Ref(was)); err != nil {
		return nil // rye bundle create brings it there
	}
	if _, err := s.Put(ctx, cas.Blob, bytes.NewReader(doc)); err != nil {
		return err
	}
	return install.Keep(ctx, s, l.read, body, v.options)
}

func bundleAttestCommand() command {
	return command{
		path: "bundle attest", group: "bundles", help: "Say, signed, how a bundle was made.",
		more: "It writes an in-toto statement with SLSA provenance in a DSSE envelope, which speaks about this very bundle and bundle.yaml. Beside a " +
			"bundle it names the manifest's id; --embed puts it beside the project's manifest and names it there, so that rye bundle verify " +
			"--require provenance finds it, and the manifest is signed anew.\n\nExamples:\n\n    rye bundle attest --embed\n" +
			"    rye bundle attest acme/deploy --builder https://ci.example.com/release -o provenance.json",
		aka: []string{"attest", "bundle provenance"},
		new: func() runner { return new(bundleAttestRun) }, schema: "bundle-attest/1", output: bundleEvidence{},
	}
}

type bundleAttestRun struct {
	Builder    string `placeholder:"URI" help:"Who made it; the key that signs when left out."`
	Invocation string `placeholder:"TEXT" help:"What the builder calls this run."`
	evidenceFlags
}

func (c *bundleAttestRun) run(ctx context.Context, a *app) (answer, error) {
	b, l, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if l.where == inBinary {
		return nil, &fault.Error{Code: fault.Denied, Text: "\"rye/std\" was made with this binary: who has built that can say how"}
	}
	k, err := a.signingKey(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	build := provenance.Build{Builder: c.Builder, Invocation: c.Invocation, Finished: a.clock().UTC().Truncate(time.Second)}
	if build.Builder == "" {
		build.Builder = "urn:rye:key:" + k.Public().Fingerprint().String()
	}
	if l.where == inProject {
		text, err := readSmall(filepath.Join(l.dir, recipe.File), maxRecipe)
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
	envelope, err := provenance.Attest(l.read.FileList, at, build, k.Private)
	if _, ok := errors.AsType[*provenance.Error](err); ok {
		return nil, &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("--builder is %q, and no URI", build.Builder),
			Hint: []string{"rye bundle attest --builder https://ci.example.com/release"}}
	}
	if err != nil {
		return nil, err
	}
	return c.finish(ctx, b, l, provenance.Name, bundle.TypeEnvelope, envelope, k)
}
