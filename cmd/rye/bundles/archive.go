package bundles

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

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
)

type bundleExportRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"Bundle; default: the project's."`
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE; - for standard output."`
}

type bundleExport struct {
	Bundle   string `json:"bundle"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
	File     string `json:"file"`
	Digest   string `json:"digest"` // of the file
	Bytes    int64  `json:"bytes"`  // of the file
	Files    int    `json:"files"`
}

func (e bundleExport) Text(t *cli.Terminal) { t.Printf("%s\n", e.File) }

func (c *bundleExportRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Output == "-" && a.Globals.JSON {
		return nil, fault.New(fault.Validation, "\"-o -\" and --json both write to standard output")
	}
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	l, err := b.Find(ctx, c.Bundle)
	if err == nil {
		err = l.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	switch l.Where {
	case find.InArchive:
		return nil, fault.New(fault.Validation, "%q is an archive already", l.Place).
			Try("rye bundle verify " + fault.Quote(c.Bundle))
	case find.InBinary:
		return nil, fault.New(fault.Denied, "%q is part of the binary and unsigned: it can't be exported",
			find.LibraryID).On("reason", "builtin")
	}
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	body, err := l.Bundle.Body()
	if err != nil {
		return nil, err
	}
	p := a.Progress("writing", l.Bundle.Bytes)
	defer p.Done()
	ans := bundleExport{Bundle: l.Bundle.BundleID, Version: l.Bundle.Version, Manifest: l.Bundle.ID.String(),
		File: c.Output, Files: len(l.Bundle.Files)}
	sum := cas.NewHasher()
	write := func(w io.Writer) error {
		return archive.Write(ctx, io.MultiWriter(w, sum), body, l.Bundle.Signatures, progressGetter{l.Files, p},
			signs.SignerKeys(a, l.Bundle.Signatures)...)
	}
	if c.Output == "-" {
		return nil, l.Changed(write(a.Term.Data))
	}
	if ans.File == "" {
		ans.File = strings.ReplaceAll(ans.Bundle, "/", "-") + "-" + ans.Version + ".tar.zst"
	}
	file, err := paths.ToWrite(a, ans.File)
	if err != nil {
		return nil, err
	}
	if err := osfile.WriteFile(file, 0o644, false, write); err != nil {
		return nil, l.Changed(err)
	}
	if fi, err := os.Stat(file); err == nil {
		ans.Bytes = fi.Size()
	}
	ans.Digest = sum.Digest().String()
	p.Done()
	a.Term.Note("exported %s@%s, %s, %s", ans.Bundle, ans.Version, fault.Count(int64(ans.Files), "file"),
		cli.ByteSize(float64(ans.Bytes)))
	return ans, nil
}

// A progressGetter counts what is read.
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
	Closed  bool   `help:"Refuse it if a bundle that it requires is missing."`
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
	b, v, err := c.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var l *find.Found
	if c.Archive == "-" {
		l, err = b.Find(ctx, c.Archive)
	} else {
		l, err = b.Finder(ctx).At(c.Archive)
	}
	if err != nil {
		return nil, err
	}
	if l.Where != find.InArchive && l.V1 == nil {
		return nil, fault.New(fault.Validation, "%q is no archive", c.Archive).
			Try("rye bundle export "+fault.Quote(l.ID), "rye bundle install "+fault.Quote(l.ID))
	}
	v.Options.Closed = c.Closed
	r, err := take(ctx, b, l, v)
	if err != nil {
		return nil, err
	}
	return bundleImport{r.BundleID, r.Version, r.ID.String(), len(r.Bundle.Files), len(r.Vouched), r.Bytes,
		l.Format()}, nil
}

// take brings a bundle into the store.
func take(ctx context.Context, b *paths.Workspace, l *find.Found, v *spaces.Vouching) (*bundle.Report, error) {
	s, err := b.OpenStore(true)
	if err != nil {
		return nil, err
	}
	p := b.App.Progress("importing", 0)
	defer p.Done()
	v.Options.Progress = p.Reached() // what is verified in the store, after what came in
	r, err := l.Import(ctx, s, v.Options, p.Counted)
	if _, no := errors.AsType[*bundle.NotAdmittedError](err); no && v.Trust == nil {
		f := fault.Of(err)
		f.Hint = l.InspectHint()
		return r, f
	}
	return r, err
}
