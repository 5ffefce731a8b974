// The commands rye bundle export and rye bundle import.

package bundles

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

type bundleExportRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle|path" help:"Bundle; default: the project's."`
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE; - for standard output."`
}

type bundleExport struct {
	Bundle   string `json:"bundle"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
	File     string `json:"file"`
	Digest   string `json:"digest"` // of the archive
	Bytes    int64  `json:"bytes"`  // size of the archive
	Files    int    `json:"files"`
	Proof    string `json:"proof,omitempty"` // the file with the proof that a log has the archive
}

func (e bundleExport) Text(t *cli.Terminal) { t.Printf("%s\n", e.File) }

func (c *bundleExportRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Output == "-" && app.Globals.JSON {
		return nil, fault.New(fault.Validation, "\"-o -\" and --json both write to standard output")
	}
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	found, err := work.Find(ctx, c.Bundle)
	if err == nil {
		err = found.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	switch {
	case found.Archive != nil:
		return nil, fault.New(fault.Validation, "%q is already an archive", found.Place).
			Try("rye bundle verify " + fault.Quote(c.Bundle))
	case found.Where == find.InBinary:
		return nil, fault.New(fault.Denied, "can't export %q: it is part of the binary and unsigned",
			find.LibraryID).On("reason", "builtin")
	}
	if err := found.Read(ctx); err != nil {
		return nil, err
	}
	body, err := found.Bundle.Body()
	if err != nil {
		return nil, err
	}
	progress := app.Progress("writing", found.Bundle.Bytes)
	defer progress.Done()
	ans := bundleExport{Bundle: found.Bundle.BundleID, Version: found.Bundle.Version,
		Manifest: found.Bundle.ID.String(),
		File:     c.Output, Files: len(found.Bundle.Files)}
	sum := cas.NewHasher()
	write := func(w io.Writer) error {
		return archive.Write(ctx, io.MultiWriter(w, sum), body, found.Bundle.Signatures,
			progressGetter{found.Files, progress},
			signs.SignerKeys(app, found.Bundle.Signatures)...)
	}
	if c.Output == "-" {
		return nil, found.Changed(write(app.Term.Data))
	}
	if ans.File == "" {
		ans.File = archive.FileName(ans.Bundle, ans.Version)
	}
	file, err := paths.ToWrite(app, ans.File)
	if err != nil {
		return nil, err
	}
	if err := osfile.WriteFile(file, 0o644, false, write); err != nil {
		return nil, found.Changed(err)
	}
	if fi, err := os.Stat(file); err == nil {
		ans.Bytes = fi.Size()
	}
	ans.Digest = sum.Digest().String()
	progress.Done()
	if ans.Proof, err = c.proof(ctx, work, found.Bundle, sum.Digest(), ans.File, ans.Bytes); err != nil {
		return nil, err
	}
	app.Term.Note("exported %s@%s, %s, %s", ans.Bundle, ans.Version, fault.Count(int64(ans.Files), "file"),
		cli.ByteSize(float64(ans.Bytes)))
	return ans, nil
}

// proof writes the proof of an archive beside it, if a log has exactly this archive.
func (c *bundleExportRun) proof(ctx context.Context, work *paths.Workspace, b *bundle.Bundle, digest cas.Digest,
	file string, size int64) (string, error) {
	proofs, err := work.Proofs(ctx, tlog.Release{Bundle: b.BundleID, Version: b.Version, Manifest: b.ID,
		Archive: digest, Size: size})
	if err != nil || len(proofs) == 0 {
		return "", err
	}
	to, err := paths.ToWrite(work.App, file+registry.ProofSuffix)
	if err != nil {
		return "", err
	}
	return file + registry.ProofSuffix, osfile.WriteFile(to, 0o644, false, func(w io.Writer) error {
		_, err := w.Write(proofs[0].Append(nil))
		return err
	})
}

// A progressGetter counts the bytes of every object that archive.Write reads.
type progressGetter struct {
	cas.Getter
	p *cli.Progress
}

// Get implements cas.Getter.
func (g progressGetter) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := g.Getter.Get(ctx, id)
	if err == nil {
		g.p.Add(o.Size)
	}
	return o, err
}

type bundleImportRun struct {
	Archive string `arg:"" complete:"file" help:"Archive (- for standard input), or the directory of a v1 bundle."`
	Closed  bool   `help:"Refuse the bundle if a required one is missing."`
	spaces.SignerFlags
}

type bundleImport struct {
	Bundle   string `json:"bundle"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
	Files    int    `json:"files"`
	Items    int    `json:"items"`
	Bytes    int64  `json:"bytes"`
	Format   string `json:"format"` // "v1", "v2"
}

func (i bundleImport) Text(t *cli.Terminal) {
	t.Printf("%s\n", i.Manifest)
	t.Note("imported %s@%s, verified, %s, %s", i.Bundle, i.Version, fault.Count(int64(i.Files), "file"),
		fault.Count(int64(i.Items), "item"))
}

func (c *bundleImportRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, c.Archive, c.Signer, func() (cli.Answer, error) { return c.take(ctx, a) })
}

func (c *bundleImportRun) take(ctx context.Context, a *cli.App) (cli.Answer, error) {
	work, vouching, err := c.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	var found *find.Found
	if c.Archive == "-" {
		found, err = work.Find(ctx, c.Archive)
	} else {
		found, err = work.Finder(ctx).At(ctx, c.Archive)
	}
	if err != nil {
		return nil, err
	}
	if found.Where != find.InArchive && found.V1 == nil {
		return nil, fault.New(fault.Validation, "%q is not an archive", c.Archive).
			Try("rye bundle export "+fault.Quote(found.ID), "rye bundle install "+fault.Quote(found.ID))
	}
	vouching.Options.Closed = c.Closed
	proof, err := work.Beside(ctx, found.File())
	if err != nil {
		return nil, err
	}
	r, err := take(ctx, work, found, vouching)
	if err != nil {
		return nil, err
	}
	if proof != nil {
		of := tlog.Release{Bundle: r.BundleID, Version: r.Version, Manifest: r.ID}
		if err := work.TakeProof(ctx, of, proof); err != nil {
			return nil, err
		}
	}
	return bundleImport{r.BundleID, r.Version, r.ID.String(), len(r.Bundle.Files), len(r.Vouched), r.Bytes,
		found.Format()}, nil
}

// take verifies a bundle and imports it into the store. Without a policy, an unknown signer's error gets the hint to
// inspect the bundle.
func take(ctx context.Context, work *paths.Workspace, found *find.Found,
	vouching *spaces.Vouching) (*bundle.Report, error) {
	s, err := work.OpenStore(true)
	if err != nil {
		return nil, err
	}
	progress := work.App.Progress("importing", 0)
	defer progress.Done()
	vouching.Options.Progress = progress.Reached() // Counted counts the input; this counts the verification after it
	r, err := found.Import(ctx, s, vouching.Options, progress.Counted)
	if _, no := errors.AsType[*bundle.NotAdmittedError](err); no && vouching.Trust == nil {
		f := fault.Of(err)
		f.Hint = found.InspectHint()
		return r, f
	}
	return r, err
}
