package remotes

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/manifest/tlog"
)

type bundlePushRun struct {
	Bundle string `arg:"" complete:"bundle" help:"Bundle of the project or the store; left out: the project's."`
	To     string `arg:"" optional:"" name:"reference" help:"oci://HOST/NAME[:TAG] or oci-layout:DIR[:TAG]."`
}

type bundlePushed struct {
	Bundle    string `json:"bundle"`
	Version   string `json:"version"`
	Manifest  string `json:"manifest"`
	Reference string `json:"reference"` // with tag and digest
	Digest    string `json:"digest"`    // of the OCI manifest
	Layers    int    `json:"layers"`
	Sent      int64  `json:"sent"`   // bytes that the registry lacked
	Reused    int64  `json:"reused"` // bytes that it had already
}

func (p bundlePushed) Text(t *cli.Terminal) {
	t.Printf("%s\n", p.Reference)
	t.Note("pushed %s@%s, %s, %s sent, %s already there", p.Bundle, p.Version, fault.Count(int64(p.Layers), "layer"),
		cli.ByteSize(float64(p.Sent)), cli.ByteSize(float64(p.Reused)))
}

func (c *bundlePushRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.To == "" { // a single argument is the reference
		c.Bundle, c.To = "", c.Bundle
	}
	workspace, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	progress := app.Progress("pushing", 0)
	defer progress.Done()
	place, ref, err := paths.Registry(app, c.To, progress)
	if err != nil {
		return nil, err
	}
	if ref.Digest != "" {
		return nil, fault.New(fault.Validation, "%s: a push names a tag, not a digest", ref).
			On("reference", ref.String())
	}
	found, err := workspace.Find(ctx, c.Bundle)
	if err == nil {
		err = found.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	switch found.Where {
	case find.InBinary:
		return nil, fault.New(fault.Denied, "%q is part of the binary and unsigned: it can't be pushed",
			find.LibraryID).On("reason", "builtin")
	case find.InArchive:
		return nil, fault.New(fault.Validation, "%q is an archive: a push takes a bundle of the project or the store",
			found.Place).
			Try("rye bundle import " + fault.Quote(c.Bundle))
	}
	if err := found.Read(ctx); err != nil {
		return nil, err
	}
	if progress != nil {
		progress.Total.Store(found.Bundle.Bytes)
	}
	proofs, err := workspace.Proofs(ctx, tlog.Release{Bundle: found.Bundle.BundleID, Version: found.Bundle.Version,
		Manifest: found.Bundle.ID})
	if err != nil {
		return nil, err
	}
	// A push keeps a few large buffers. With the usual percentage, garbage could double the memory that they need.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	done, err := remote.Push(ctx, place, cmp.Or(ref.Tag, remote.Tag(found.Bundle.Version)), found.Bundle, found.Files,
		workspace.Journal(), app.Now(), proofs, signs.SignerKeys(app, found.Bundle.Signatures)...)
	if err != nil {
		return nil, found.Changed(err)
	}
	ref.Tag, ref.Digest = done.Tag, done.Digest
	return bundlePushed{found.Bundle.BundleID, found.Bundle.Version, done.ID.String(), fmt.Sprint(ref), done.Digest,
		done.Layers, done.Sent, done.Reused}, nil
}
