package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

func bundleDiffCommand() command {
	return command{
		path: "bundle diff", group: "bundles", help: "Show how a bundle differs from another, in files and in meaning.",
		more: "It compares the manifests, and of items what they ask for, what they may do, and the words of their text; nothing is verified. With " +
			"--check the exit status is 1 where a change breaks something for those who use the bundle.\n\nExamples:\n\n" +
			"    rye bundle diff acme/deploy@1.3.0\n    rye bundle diff old.tar.zst new.tar.zst --json",
		aka: []string{"bundle compare", "bundle changes"},
		new: func() runner { return new(bundleDiffRun) }, schema: "bundle-diff/1", output: &bundleDiff{},
	}
}

type bundleDiffRun struct {
	From  string `arg:"" name:"a" complete:"bundle" help:"The bundle before."`
	To    string `arg:"" optional:"" name:"b" complete:"bundle" help:"The bundle after; the project's when left out."`
	Check bool   `help:"Exit with 1 if a change breaks something."`
}

type bundleDiff struct{ *diff.Report }

func (c *bundleDiffRun) run(ctx context.Context, a *app) (answer, error) {
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	defer b.close()
	from, err := b.side(ctx, c.From)
	if err != nil {
		return nil, err
	}
	to, err := b.side(ctx, c.To)
	if err != nil {
		return nil, err
	}
	r, err := diff.Diff(ctx, from, to)
	if err != nil {
		return nil, err
	}
	ans := &bundleDiff{r}
	if c.Check && r.Breaking {
		f := &fault.Error{Code: fault.VersionMismatch, Text: "what uses the bundle may break: " + r.Summary}
		return ans, f.Asked()
	}
	return ans, nil
}

// side is a bundle as it is compared.
func (b *bundles) side(ctx context.Context, text string) (diff.Side, error) {
	l, err := b.locate(ctx, text)
	if err == nil {
		err = b.whole(ctx, l)
	}
	if err == nil && l.where == inArchive {
		err = b.unpack(ctx, l)
	}
	if err != nil {
		return diff.Side{}, err
	}
	s := diff.Side{Bundle: l.read, Files: l.has}
	if l.where != inBinary {
		s.Below, err = b.below(ctx, l.read.BundleID, l.read.Requires)
	}
	return s, err
}

// unpack reads an archive, and keeps what is in .ai in memory.
func (b *bundles) unpack(ctx context.Context, l *located) error {
	p := b.app.progress("reading", 0)
	defer p.Done()
	m := &unpacked{blobs: map[cas.Digest][]byte{}}
	h, err := archive.Read(ctx, p.counted(l.file), m)
	if err != nil {
		return l.about(err)
	}
	l.read, l.has = &bundle.Bundle{FileList: h.List, Files: h.Files}, m
	return nil
}

// maxUnpacked is how much of an archive is kept in memory.
const maxUnpacked = 256 << 20

// unpacked is what was in an archive.
type unpacked struct {
	blobs map[cas.Digest][]byte
	size  int64
}

// Begin implements archive.Sink.
func (m *unpacked) Begin(*archive.Head) error { return nil }

// File implements archive.Sink.
func (m *unpacked) File(e archive.Entry, r io.Reader) error {
	if e.Evidence || !strings.HasPrefix(e.Path, markerDir+"/") {
		return nil
	}
	if m.size += e.Size; m.size > maxUnpacked {
		return &fault.Error{Code: fault.Limit, Text: fmt.Sprintf("the items of the archive have more than %s", byteSize(maxUnpacked)),
			Hint: []string{"rye bundle import ARCHIVE"}}
	}
	text, err := io.ReadAll(r)
	m.blobs[e.Digest] = text
	return err
}

// Get implements cas.Getter.
func (m *unpacked) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	text, ok := m.blobs[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, absentBlob(id)
	}
	return cas.Verify(cas.Info{ID: id, Size: int64(len(text))}, io.NopCloser(strings.NewReader(string(text)))), nil
}

// text tells changes as people read them: the manifest, then items, then the other files.
func (d *bundleDiff) text(t *terminal) {
	t.printf("%s -> %s: %s\n", d.From.Name, d.To.Name, d.Summary)
	for _, group := range []struct {
		what   string
		fields []diff.Field
	}{{"", d.Headers}, {"requires ", d.Requires}, {"evidence ", d.Evidence}} {
		for _, f := range group.fields {
			t.printf("%s  %s\n", d.class(t, string(f.Class)), group.what+change(f.Name, f.From, f.To))
		}
	}
	d.items(t)
}

// items tells of items and of other files.
func (d *bundleDiff) items(t *terminal) {
	for _, it := range d.Items {
		version := ""
		if it.FromVersion != it.ToVersion {
			version = fmt.Sprintf("  %s -> %s", cmp.Or(it.FromVersion, "none"), cmp.Or(it.ToVersion, "none"))
		}
		t.printf("%s  %s %s%s\n", d.class(t, string(it.Class)), string(it.Change), it.Ref, version)
		for _, s := range it.Shape {
			t.printf("    %s\n", change(strings.TrimSpace(s.Kind+" "+s.Path), s.From, s.To))
		}
		for _, f := range it.Fields {
			t.printf("    %s\n", change(f.Name, f.From, f.To))
		}
		if it.Text != nil {
			printParts(t, it.Text)
		}
	}
	for _, f := range d.Files {
		if f.Class != "" {
			t.printf("%s  %s %s\n", d.class(t, string(f.Class)), string(f.Change), f.Path)
		}
	}
	for _, u := range d.Unread {
		t.printf("%s  %s: %s\n", t.stdout.paint(roleWarn, "unread", t.ascii), u.Ref, u.Why)
	}
}

// class paints what a change means.
func (d *bundleDiff) class(t *terminal, class string) styled {
	if class == "breaking" {
		return t.stdout.paint(roleError, class, t.ascii)
	}
	return t.stdout.paint(roleGood, class, t.ascii)
}

// change is a value before and after.
func change(name string, from, to json.RawMessage) string {
	word := func(v json.RawMessage) string {
		if v == nil {
			return "none"
		}
		return string(v)
	}
	return fmt.Sprintf("%s: %s -> %s", name, word(from), word(to))
}

// printParts writes how one text became another: what goes in [- -], what comes in {+ +}.
func printParts(t *terminal, text *diff.Text) {
	var b strings.Builder
	for _, p := range text.Parts {
		switch p.Op {
		case diff.Delete:
			b.WriteString("[-" + p.Text + "-]")
		case diff.Insert:
			b.WriteString("{+" + p.Text + "+}")
		case diff.Skip:
			b.WriteString("…\n")
		default:
			b.WriteString(p.Text)
		}
	}
	for line := range strings.Lines(b.String()) {
		t.printf("    | %s\n", strings.TrimRight(line, "\n"))
	}
}
