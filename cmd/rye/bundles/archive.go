package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/locate"
	"github.com/rye-build/rye/manifest/sign"
)

func BundleExportCommand() cli.Command {
	return cli.Command{
		Path: "bundle export", Group: "bundles", Help: "Write a bundle to an archive.",
		More: "The archive (.tar.zst) holds the manifest with its signatures and every file, which is hashed on its way. The same bundle makes the same " +
			"bytes. Without -o it is ID-VERSION.tar.zst in the working directory, with \"-\" for each \"/\"; \"-o -\" writes to standard output.\n\n" +
			"Examples:\n\n    rye bundle export acme/deploy\n    rye bundle export acme/deploy -o - | ssh host rye bundle import -",
		Aka: []string{"bundle save", "bundle pack"},
		New: func() cli.Runner { return new(bundleExportRun) }, Schema: "bundle-export/1", Output: bundleExport{},
	}
}

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
		return nil, &fault.Error{Code: fault.Validation, Text: "\"-o -\" and --json both write to standard output"}
	}
	b, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	l, err := b.Finder(ctx).Find(ctx, c.Bundle)
	if err == nil {
		err = l.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	switch l.Where {
	case locate.InArchive:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is an archive already", l.Place), Hint: []string{"rye bundle verify " + fault.Quote(c.Bundle)}}
	case locate.InBinary:
		return nil, &fault.Error{Code: fault.Denied, Text: "\"rye/std\" is part of the binary, and nobody has signed it: it is no archive's to carry",
			Details: map[string]any{"reason": "builtin"}}
	}
	if err := l.Load(ctx); err != nil {
		return nil, err
	}
	body, err := l.Read.Body()
	if err != nil {
		return nil, err
	}
	p := a.Progress("writing", l.Read.Bytes)
	defer p.Done()
	ans := bundleExport{Bundle: l.Read.BundleID, Version: l.Read.Version, Manifest: l.Read.ID.String(), File: c.Output, Files: len(l.Read.Files)}
	sum := cas.NewHasher()
	write := func(w io.Writer) error {
		return archive.Write(ctx, io.MultiWriter(w, sum), body, l.Read.Signatures, progressGetter{l.Has, p}, signs.SignerKeys(a, l.Read.Signatures)...)
	}
	if c.Output == "-" {
		return nil, changed(l, write(a.Term.Data))
	}
	if ans.File == "" {
		ans.File = strings.ReplaceAll(ans.Bundle, "/", "-") + "-" + ans.Version + ".tar.zst"
	}
	file, err := places.ToWrite(a, ans.File)
	if err != nil {
		return nil, err
	}
	if err := osfile.WriteFile(file, 0o644, false, write); err != nil {
		return nil, changed(l, err)
	}
	if fi, err := os.Stat(file); err == nil {
		ans.Bytes = fi.Size()
	}
	ans.Digest = sum.Digest().String()
	p.Done()
	a.Term.Note("exported %s@%s, %s, %s", ans.Bundle, ans.Version, fault.Count(int64(ans.Files), "file"), cli.ByteSize(float64(ans.Bytes)))
	return ans, nil
}

// changed says which file of a project isn't what the manifest says, where that is what is wrong: nothing in a store is.
func changed(l *locate.Bundle, err error) error {
	if l.Where != locate.InProject || l.Read == nil {
		return err
	}
	path := ""
	if bad, ok := errors.AsType[*cas.DamagedError](err); ok {
		for i := range l.Read.Files {
			if l.Read.Files[i].Digest == bad.ID.Digest {
				path = l.Read.Files[i].Path
			}
		}
	} else if bad, ok := errors.AsType[*fs.PathError](err); ok {
		if _, listed := l.Read.File(bad.Path); listed {
			path = bad.Path
		}
	}
	if path == "" {
		return err
	}
	return &fault.Error{Code: fault.Integrity, Exit: fault.ExitRefused, Err: err, Text: fmt.Sprintf("%q is not what the manifest of %q says", path, l.ID),
		Hint: []string{"rye bundle verify " + fault.Quote(l.ID), "rye bundle create " + fault.Quote(l.ID)}, Details: map[string]any{"path": path, "bundle": l.ID}}
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

func BundleImportCommand() cli.Command {
	return cli.Command{
		Path: "bundle import", Quiet: true, Group: "bundles", Help: "Verify an archive and import it into the store.",
		More: "Strangers are turned away at the manifest. Nobody finds the bundle before all of it was verified as rye bundle verify does it. " +
			"rye bundle install puts it to use.\n\nA v1 bundle comes as the directory that holds its .ai, where the policy " +
			"accepts v1 for its name.\n\nExamples:\n\n    rye bundle import deploy.tar.zst\n    rye bundle import - --signer release.pem < deploy.tar.zst",
		Aka: []string{"bundle load", "bundle unpack"},
		New: func() cli.Runner { return new(bundleImportRun) }, Schema: "bundle-import/1", Output: bundleImport{},
	}
}

type bundleImportRun struct {
	Archive string `arg:"" complete:"file" help:"Archive (- for standard input), or the directory of a v1 bundle."`
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

func newBundleImport(r *bundle.Report) bundleImport {
	return bundleImport{r.BundleID, r.Version, r.ID.String(), len(r.Bundle.Files), len(r.Vouched), r.Bytes, sign.V2.String()}
}

func (i bundleImport) Text(t *cli.Terminal) {
	t.Printf("%s\n", i.Manifest)
	t.Note("imported %s@%s, verified, %s, %s", i.Bundle, i.Version, fault.Count(int64(i.Files), "file"), fault.Count(int64(i.Items), "item"))
}

func (c *bundleImportRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, c.Archive, c.Signer, func() (cli.Answer, error) { return c.take(ctx, a) })
}

func (c *bundleImportRun) take(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	v, err := c.Vouching(ctx, a)
	if err != nil {
		return nil, err
	}
	var l *locate.Bundle
	if c.Archive == "-" {
		l, err = b.Finder(ctx).Find(ctx, c.Archive)
	} else {
		l, err = b.Finder(ctx).AtPath(c.Archive)
	}
	if err != nil {
		return nil, err
	}
	if l.V1 != nil {
		return importV1(ctx, b, l, v)
	}
	if l.Where != locate.InArchive {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is no archive", c.Archive), Hint: []string{"rye bundle export " + fault.Quote(l.ID), "rye bundle install " + fault.Quote(l.ID)}}
	}
	r, err := take(ctx, b, l, v)
	if err != nil {
		return nil, err
	}
	return newBundleImport(r), nil
}

// take imports an archive.
func take(ctx context.Context, b *places.Workspace, l *locate.Bundle, v *spaces.Vouching) (*bundle.Report, error) {
	p := b.App.Progress("importing", 0)
	defer p.Done()
	id, requires, err := l.Requires(ctx)
	if err != nil {
		return nil, err
	}
	if v.Options.Below, err = b.Below(ctx, id, requires); err != nil {
		return nil, err
	}
	s, err := b.OpenStore(true)
	if err != nil {
		return nil, err
	}
	v.Options.Progress = p.Reached() // what is verified in the store, after what came in
	r, err := install.Import(ctx, s, p.Counted(l.File), v.Options)
	if _, no := errors.AsType[*bundle.NotAdmittedError](err); no && v.Trust == nil {
		f := fault.Of(err)
		f.Hint = inspectHint(l.Where, l.Place, l.ID)
		return r, f
	}
	return r, about(l, err)
}

// about says which archive is wrong, if one is.
func about(l *locate.Bundle, err error) error {
	if _, ok := errors.AsType[*archive.Error](err); ok {
		return fmt.Errorf("%q: %w", l.Place, err)
	}
	return err
}
