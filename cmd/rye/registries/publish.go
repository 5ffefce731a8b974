package registries

import (
	"context"
	"io"
	"os"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/lock/registry"
)

type publishRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle|path" help:"Bundle or archive; default: the project's bundle."`
	registryFlag
	DryRun bool `help:"Show what would be published; send nothing."`
}

// published is a version that the registry has.
type published struct {
	Registry string `json:"registry"`
	DryRun   bool   `json:"dry_run"`
	Files    int    `json:"files"`
	registry.Published
}

// Text implements cli.Answer.
func (p published) Text(t *cli.Terminal) {
	if p.DryRun {
		return
	}
	t.Printf("%s@%s\n", p.Bundle, p.Version)
	t.Note("published at %s as entry %d of its log", p.Registry, p.Leaf)
}

// Run implements cli.Runner.
func (c *publishRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	workspace, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	found, err := workspace.Find(ctx, c.Bundle)
	if err == nil {
		err = found.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	if found.Where == find.InBinary {
		return nil, fault.New(fault.Denied, "%q is part of the binary and unsigned: it can't be published",
			find.LibraryID).On("reason", "builtin")
	}
	file, err := os.CreateTemp("", "rye-publish-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := writeArchive(ctx, app, found, file); err != nil {
		return nil, err
	}
	answer, err := c.check(ctx, app, found, file)
	if err != nil {
		return nil, err
	}
	if c.DryRun {
		return *answer, nil
	}
	session, err := open(ctx, app, answer.Registry, true)
	if err != nil {
		return nil, err
	}
	if err := app.Confirm(ctx, "publish "+answer.Bundle+"@"+answer.Version+" at "+answer.Registry+
		"? A version never changes."); err != nil {
		return nil, err
	}
	progress := app.Progress("sending", answer.Size)
	defer progress.Done()
	version, err := session.Publish(ctx, counting{file, progress}, answer.Size)
	if err != nil {
		return nil, err
	}
	if version.Manifest != answer.Manifest || version.Archive != answer.Archive {
		return nil, fault.New(fault.Integrity, "the registry answers that it published something else").
			On("expected", answer.Archive.String()).On("found", version.Archive.String())
	}
	answer.Published = *version
	return *answer, nil
}

// A counting reader counts what is sent.
type counting struct {
	io.Reader
	progress *cli.Progress
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.progress.Add(int64(n))
	return n, err
}

// writeArchive writes the archive of a bundle, or copies an archive that was named.
func writeArchive(ctx context.Context, app *cli.App, found *find.Found, file *os.File) error {
	if found.Where == find.InArchive {
		_, err := io.Copy(file, found.Archive)
		return err
	}
	if err := found.Read(ctx); err != nil {
		return err
	}
	body, err := found.Bundle.Body()
	if err != nil {
		return err
	}
	return found.Changed(archive.Write(ctx, file, body, found.Bundle.Signatures, found.Files,
		signs.SignerKeys(app, found.Bundle.Signatures)...))
}

// check verifies the archive as the registry will, and shows what would be published.
func (c *publishRun) check(ctx context.Context, app *cli.App, found *find.Found, file *os.File) (*published, error) {
	digest, size, err := digestOf(file)
	if err != nil {
		return nil, err
	}
	head, err := archive.ReadHead(ctx, file)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	options := bundle.VerifyOptions{Threshold: 1, Now: app.Clock()}
	for _, k := range head.Keys {
		options.Signers = append(options.Signers, k.Public)
	}
	if len(options.Signers) == 0 {
		return nil, fault.New(fault.Unsigned,
			"%q carries no key of a signer, and a registry takes signed bundles alone", head.List.Name).
			Try(fault.Command("rye bundle create", head.List.BundleID))
	}
	if options.Below, options.Needs, err = found.Below(ctx); err != nil {
		return nil, err
	}
	report, err := bundle.Verify(ctx, bundle.InArchive(file), options)
	if err != nil {
		return nil, err
	}
	if !report.OK() {
		return nil, report.Fault()
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	at, err := c.at(app, report.BundleID)
	if err != nil {
		return nil, err
	}
	answer := &published{Registry: at, DryRun: c.DryRun, Files: len(head.Files), Published: registry.Published{
		Bundle: report.BundleID, Version: report.Version, Manifest: report.ID, Archive: digest, Size: size,
		License: report.License, About: report.Description}}
	for _, signer := range report.Manifest.Signers {
		answer.Signers = append(answer.Signers, signer.Key.Fingerprint().String())
	}
	t := app.Term
	t.Note("%s@%s: %s, %s, licence %s", answer.Bundle, answer.Version, fault.Count(int64(answer.Files), "file"),
		cli.ByteSize(float64(size)), orNone(answer.License))
	t.Note("registry %s, archive %s, signed by %s", at, digest.Short(), fault.Count(int64(len(answer.Signers)), "key"))
	t.Note("consumers need a policy line: %s: {keys: [NAME]}", namesOf(answer.Bundle))
	return answer, nil
}
