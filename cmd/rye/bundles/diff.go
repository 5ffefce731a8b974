package bundles

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type bundleDiffRun struct {
	From  string `arg:"" name:"a" complete:"bundle|path" help:"Old bundle."`
	To    string `arg:"" optional:"" name:"b" complete:"bundle|path" help:"New bundle; default: the project's."`
	Check bool   `help:"Exit with 1 on a breaking change."`
}

// BundleDiff is the comparison of two bundles.
type BundleDiff struct{ *diff.Report }

func (c *bundleDiffRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	from, err := side(ctx, b, c.From)
	if err != nil {
		return nil, err
	}
	to, err := side(ctx, b, c.To)
	if err != nil {
		return nil, err
	}
	r, err := diff.Diff(ctx, from, to)
	if err != nil {
		return nil, err
	}
	ans := &BundleDiff{r}
	if c.Check && r.Breaking {
		f := fault.New(fault.VersionMismatch, "breaking change: %s", r.Summary)
		return ans, f.Answer()
	}
	return ans, nil
}

// side finds and unpacks one of the two bundles.
func side(ctx context.Context, b *paths.Workspace, text string) (diff.Side, error) {
	l, err := b.Find(ctx, text)
	if err != nil {
		return diff.Side{}, err
	}
	p := b.App.Progress("reading", 0)
	defer p.Done()
	if err := l.Unpack(ctx, p.Counted); err != nil {
		return diff.Side{}, err
	}
	below, _, err := l.Below(ctx)
	return diff.Side{Bundle: l.Bundle, Files: l.Files, Below: below}, err
}

// Text prints the changes of the manifest, then those of items and other files.
func (d *BundleDiff) Text(t *cli.Terminal) {
	t.Printf("%s -> %s: %s\n", d.From.Name, d.To.Name, d.Summary)
	for _, group := range []struct {
		what   string
		fields []diff.Field
	}{{"", d.Headers}, {"requires ", d.Requires}, {"evidence ", d.Evidence}} {
		for _, f := range group.fields {
			t.Printf("%s  %s\n", d.class(t, string(f.Class)), group.what+change(f.Name, f.From, f.To))
		}
	}
	d.WithItems(t)
}

// WithItems prints the changes of items, of other files, and the files that could not be compared.
func (d *BundleDiff) WithItems(term *cli.Terminal) {
	for _, it := range d.Items {
		version := ""
		if it.FromVersion != it.ToVersion {
			version = fmt.Sprintf("  %s -> %s", cmp.Or(it.FromVersion, "none"), cmp.Or(it.ToVersion, "none"))
		}
		term.Printf("%s  %s %s%s\n", d.class(term, string(it.Class)), string(it.Change), it.Ref, version)
		for _, s := range it.Shape {
			term.Printf("    %s\n", change(strings.TrimSpace(s.Kind+" "+s.Path), s.From, s.To))
			if s.Note != "" {
				term.Printf("      %s\n", s.Note)
			}
		}
		for _, f := range it.Fields {
			term.Printf("    %s\n", change(f.Name, f.From, f.To))
		}
		if it.Text != nil {
			printParts(term, it.Text)
		}
	}
	for _, f := range d.Files {
		if f.Class != "" {
			term.Printf("%s  %s %s\n", d.class(term, string(f.Class)), string(f.Change), f.Path)
		}
		if f.Text != nil {
			printParts(term, f.Text)
		}
	}
	for _, u := range d.Unread {
		term.Printf("%s  %s: %s\n", term.Stdout.Paint(cli.RoleWarn, "unread", term.Ascii), u.Ref, u.Why)
	}
}

// class colours the class of a change.
func (d *BundleDiff) class(t *cli.Terminal, class string) cli.Styled {
	if class == "breaking" {
		return t.Stdout.Paint(cli.RoleError, class, t.Ascii)
	}
	return t.Stdout.Paint(cli.RoleGood, class, t.Ascii)
}

// change formats a value before and after: "NAME: FROM -> TO".
func change(name string, from, to json.RawMessage) string {
	word := func(v json.RawMessage) string {
		if v == nil {
			return "none"
		}
		return string(v)
	}
	return fmt.Sprintf("%s: %s -> %s", name, word(from), word(to))
}

// printLines prints a diff of whole lines, with - before deleted and + before inserted ones.
func printLines(term *cli.Terminal, text *diff.Text) {
	for _, p := range text.Parts {
		if p.Op == diff.Skip {
			term.Printf("    | …\n")
		}
		for line := range strings.Lines(p.Text) {
			term.Printf("    | %s%s\n", map[diff.Op]string{diff.Delete: "-", diff.Insert: "+", diff.Same: " "}[p.Op],
				strings.TrimRight(line, "\n"))
		}
	}
}

// printParts prints a text diff: lines, or of prose [-deleted-] and {+inserted+}.
func printParts(term *cli.Terminal, text *diff.Text) {
	if text.By == "lines" {
		printLines(term, text)
		return
	}
	var out strings.Builder
	for _, p := range text.Parts {
		switch p.Op {
		case diff.Delete:
			out.WriteString("[-" + p.Text + "-]")
		case diff.Insert:
			out.WriteString("{+" + p.Text + "+}")
		case diff.Skip:
			out.WriteString("…\n")
		default:
			out.WriteString(p.Text)
		}
	}
	for line := range strings.Lines(out.String()) {
		term.Printf("    | %s\n", strings.TrimRight(line, "\n"))
	}
}
