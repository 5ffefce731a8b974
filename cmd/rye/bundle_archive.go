package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/sign"
)

func bundleExportCommand() command {
	return command{
		path: "bundle export", group: "bundles", help: "Write a bundle as one file.",
		more: "The archive (.tar.zst) holds the manifest with its signatures and every file, which is hashed on its way. The same bundle makes the same " +
			"bytes. Without -o it is ID-VERSION.tar.zst in the working directory, with \"-\" for each \"/\"; \"-o -\" writes to standard output.\n\n" +
			"Examples:\n\n    rye bundle export acme/deploy\n    rye bundle export acme/deploy -o - | ssh host rye bundle import -",
		aka: []string{"bundle save", "bundle pack"},
		new: func() runner { return new(bundleExportRun) }, schema: "bundle-export/1", output: bundleExport{},
	}
}

type bundleExportRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"A bundle; the project's when left out."`
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE; \"-\" is standard output."`
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

func (e bundleExport) text(t *terminal) { t.printf("%s\n", e.File) }

func (c *bundleExportRun) run(ctx context.Context, a *app) (answer, error) {
	if c.Output == "-" && a.globals.JSON {
		return nil, &fault.Error{Code: fault.Validation, Text: "\"-o -\" and --json both write to standard output"}
	}
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	defer b.close()
	l, err := b.locate(ctx, c.Bundle)
	if err == nil {
		err = l.needToday()
	}
	if err != nil {
		return nil, err
	}
	switch l.where {
	case inArchive:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is an archive already", l.place), Hint: []string{"rye bundle verify " + fault.Quote(c.Bundle)}}
	case inBinary:
		return nil, &fault.Error{Code: fault.Denied, Text: "\"rye/std\" is part of the binary, and nobody has signed it: it is no archive's to carry",
			Details: map[string]any{"reason": "builtin"}}
	}
	if err := b.whole(ctx, l); err != nil {
		return nil, err
	}
	body, err := l.read.Body()
	if err != nil {
		return nil, err
	}
	p := a.progress("writing", l.read.Bytes)
	defer p.Done()
	ans := bundleExport{Bundle: l.read.BundleID, Version: l.read.Version, Manifest: l.read.ID.String(), File: c.Output, Files: len(l.read.Files)}
	sum := cas.NewHasher()
	write := func(w io.Writer) error {
		n := &countedWriter{w: w}
		err := archive.Write(ctx, io.MultiWriter(n, sum), body, l.read.Signatures, progressGetter{l.has, p})
		ans.Bytes = n.n
		return err
	}
	if c.Output == "-" {
		return nil, l.changed(write(a.term.data))
	}
	if ans.File == "" {
		ans.File = strings.ReplaceAll(ans.Bundle, "/", "-") + "-" + ans.Version + ".tar.zst"
	}
	file, err := a.toWrite(ans.File)
	if err != nil {
		return nil, err
	}
	if err := writeFile(file, 0o644, false, write); err != nil {
		return nil, l.changed(err)
	}
	ans.Digest = sum.Digest().String()
	p.Done()
	a.term.note("exported %s@%s, %s, %s", ans.Bundle, ans.Version, fault.Count(int64(ans.Files), "file"), byteSize(float64(ans.Bytes)))
	return ans, nil
}

// changed says which file of a project isn't what the manifest says, where that is what is wrong: nothing in a store is.
func (l *located) changed(err error) error {
	if l.where != inProject || l.read == nil {
		return err
	}
	path := ""
	if bad, ok := errors.AsType[*cas.DamagedError](err); ok {
		for i := range l.read.Files {
			if l.read.Files[i].Digest == bad.ID.Digest {
				path = l.read.Files[i].Path
			}
		}
	} else if bad, ok := errors.AsType[*fs.PathError](err); ok {
		if _, listed := l.read.File(bad.Path); listed {
			path = bad.Path
		}
	}
	if path == "" {
		return err
	}
	return &fault.Error{Code: fault.Integrity, Exit: fault.ExitRefused, Err: err, Text: fmt.Sprintf("%q is not what the manifest of %q says", path, l.id),
		Hint: []string{"rye bundle verify " + fault.Quote(l.id), "rye bundle create " + fault.Quote(l.id)}, Details: map[string]any{"path": path, "bundle": l.id}}
}

// toWrite is the path of a file that is to be written, in a directory that is there. Where a link leads that lies in a
// project, whoever wrote the project has chosen.
func (a *app) toWrite(name string) (string, error) {
	s := a.absolute(setting{value: name})
	if s.err != nil {
		return "", s.err
	}
	if err := a.refuseLinks(s.value); err != nil {
		return "", err
	}
	if fi, err := os.Stat(s.value); err == nil && fi.IsDir() {
		return "", &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a directory, and -o names a file", name)}
	}
	return s.value, noPlace(name, s.value)
}

// noPlace says that the directory is missing in which a file is to be written; nil if it is there.
func noPlace(name, path string) error {
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Code: fault.Files, Exit: fault.ExitMissing, Text: fmt.Sprintf("there is no directory %q", filepath.Dir(name)),
			Hint: []string{"mkdir -p " + fault.Quote(filepath.Dir(name))}, Err: err}
	}
	return nil
}

// A countedWriter counts what is written.
type countedWriter struct {
	w io.Writer
	n int64
}

func (c *countedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// A progressGetter counts what is read.
type progressGetter struct {
	cas.Getter
	p *progress
}

// Get implements cas.Getter.
func (g progressGetter) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := g.Getter.Get(ctx, id)
	if err == nil {
		g.p.Add(o.Size)
	}
	return o, err
}

func bundleImportCommand() command {
	return command{
		path: "bundle import", group: "bundles", help: "Bring a bundle from an archive into the store, once it is verified.",
		more: "Strangers are turned away at the manifest. Nobody finds the bundle before all of it was verified as rye bundle verify does it. " +
			"rye bundle install puts it to use.\n\nA bundle of the first format (v1) comes as the directory that holds its .ai, where the policy " +
			"accepts v1 for its name.\n\nExamples:\n\n    rye bundle import deploy.tar.zst\n    rye bundle import - --signer release.pem < deploy.tar.zst",
		aka: []string{"bundle load", "bundle unpack"},
		new: func() runner { return new(bundleImportRun) }, schema: "bundle-import/1", output: bundleImport{},
	}
}

type bundleImportRun struct {
	Archive string `arg:"" complete:"file" help:"The archive; \"-\" is standard input. Of the first format, its directory."`
	signerFlags
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

func (i bundleImport) text(t *terminal) {
	t.printf("%s\n", i.Manifest)
	t.note("imported %s@%s, verified, %s, %s", i.Bundle, i.Version, fault.Count(int64(i.Files), "file"), fault.Count(int64(i.Items), "item"))
}

func (c *bundleImportRun) run(ctx context.Context, a *app) (answer, error) {
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	defer b.close()
	v, err := c.vouching(ctx, a)
	if err != nil {
		return nil, err
	}
	var l *located
	if c.Archive == "-" {
		l, err = b.locate(ctx, c.Archive)
	} else {
		l, err = b.atPath(c.Archive)
	}
	if err != nil {
		return nil, err
	}
	if l.first != nil {
		return b.importFirst(ctx, l, v)
	}
	if l.where != inArchive {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is no archive", c.Archive), Hint: []string{"rye bundle export " + fault.Quote(l.id), "rye bundle install " + fault.Quote(l.id)}}
	}
	r, err := b.take(ctx, l, v)
	if err != nil {
		return nil, err
	}
	return newBundleImport(r), nil
}

// take imports an archive.
func (b *bundles) take(ctx context.Context, l *located, v *vouching) (*bundle.Report, error) {
	p := b.app.progress("importing", 0)
	defer p.Done()
	id, requires, err := b.requires(ctx, l)
	if err != nil {
		return nil, err
	}
	if v.options.Below, err = b.below(ctx, id, requires); err != nil {
		return nil, err
	}
	s, err := b.store(true)
	if err != nil {
		return nil, err
	}
	v.options.Progress = p.reached() // what is verified in the store, after what came in
	r, err := install.Import(ctx, s, p.counted(l.file), v.options)
	if _, no := errors.AsType[*bundle.NotAdmittedError](err); no && v.trust == nil {
		f := classify(err)
		f.Hint = inspectHint(l.where, l.place, l.id)
		return r, f
	}
	return r, l.about(err)
}

// about says which archive is wrong, if one is.
func (l *located) about(err error) error {
	if _, ok := errors.AsType[*archive.Error](err); ok {
		return fmt.Errorf("%q: %w", l.place, err)
	}
	return err
}
