package remotes

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
)

type bundlePullRun struct {
	From   string `arg:"" name:"reference" help:"oci://HOST/NAME or oci-layout:DIR, with :TAG or @sha256:DIGEST."`
	Closed bool   `help:"Refuse it if a bundle that it requires is missing."`
	spaces.SignerFlags
}

type bundlePulled struct {
	Bundle    string `json:"bundle"`
	Version   string `json:"version"`
	Manifest  string `json:"manifest"`
	Reference string `json:"reference"` // with tag and digest
	Digest    string `json:"digest"`    // of the OCI manifest
	Files     int    `json:"files"`
	Items     int    `json:"items"`
	Bytes     int64  `json:"bytes"`
}

func (p bundlePulled) Text(t *cli.Terminal) {
	t.Printf("%s\n", p.Manifest)
	t.Note("pulled %s@%s, verified, %s, %s, from %s", p.Bundle, p.Version, fault.Count(int64(p.Files), "file"),
		fault.Count(int64(p.Items), "item"), p.Reference)
	t.Note("install it: rye bundle install %s", p.Manifest)
}

func (c *bundlePullRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, "", c.Signer, func() (cli.Answer, error) { return c.pull(ctx, a) })
}

func (c *bundlePullRun) pull(ctx context.Context, app *cli.App) (cli.Answer, error) {
	workspace, vouching, err := c.Open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	progress := app.Progress("pulling", 0)
	defer progress.Done()
	place, ref, err := paths.Registry(app, c.From, progress)
	if err != nil {
		return nil, err
	}
	name := ref.Digest
	if name == "" {
		if ref.Tag == "" {
			if ref.Tag, err = remote.Newest(ctx, place); err != nil {
				return nil, err
			}
		}
		name = ref.Tag
	}
	source, err := remote.Open(ctx, place, name, vouching.Options)
	if err != nil {
		return nil, err
	}
	if progress != nil {
		progress.Total.Store(source.Bytes)
	}
	store, err := workspace.OpenStore(true)
	if err != nil {
		return nil, err
	}
	space, needs, err := vouching.Space(ctx, workspace, source.FileList)
	if err != nil {
		return nil, err
	}
	vouching.Options.Needs, vouching.Options.Closed = needs, c.Closed
	spool, err := paths.Spool(app)
	if err != nil {
		return nil, err
	}
	tag := ref.Tag
	if ref.Digest != "" {
		tag = "" // the digest decides, so the tag may go back to an older version
	}
	logs, err := workspace.Logs()
	if err != nil {
		return nil, err
	}
	report, err := source.Take(ctx, tag, remote.Pull{Store: store, Spool: spool, Verify: vouching.Options,
		Journal: space.Journal,
		Now:     app.Now, Proof: logs.Take})
	if err != nil {
		return nil, err
	}
	for _, why := range source.Left {
		app.Term.Note("%s", why)
	}
	if err := c.signatures(ctx, app, workspace, report.Bundle, vouching); err != nil {
		return nil, err
	}
	ref.Digest = source.Image.Digest
	return bundlePulled{report.BundleID, report.Version, report.ID.String(), fmt.Sprint(ref), source.Image.Digest,
		len(report.Bundle.Files), len(report.Vouched), report.Bytes}, nil
}

// signatures takes what others have signed into the manifest of the project's bundle, if that is the pulled one.
func (c *bundlePullRun) signatures(ctx context.Context, app *cli.App, b *paths.Workspace, pulled *bundle.Bundle,
	vouching *spaces.Vouching) error {
	if b.Root.Root == "" {
		return nil
	}
	own, err := find.ReadManifest(b.Root.Root, pulled.BundleID)
	if err != nil || own.ID != pulled.ID {
		return nil // not a bundle of the project, or another issue of it
	}
	found, err := b.Find(ctx, pulled.BundleID)
	if err == nil {
		err = found.Read(ctx)
	}
	if err != nil || found.Where != find.InProject {
		return err
	}
	changed, err := (&cosign.Change{Bundle: found, Verify: vouching.Options}).Take(ctx, pulled.Signatures)
	if changed && err == nil {
		app.Term.Note("its signatures are in the manifest of the project's %s too", found.ID)
	}
	return err
}
