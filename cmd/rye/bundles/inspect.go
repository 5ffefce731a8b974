package bundles

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// BundleInspectRun is rye bundle inspect. Tools of the library use it too (package functions).
type BundleInspectRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle|path" help:"Bundle; default: the project's."`
}

// BundleInspection is the unverified content of a bundle.
type BundleInspection struct {
	Bundle      string             `json:"bundle"`
	Version     string             `json:"version"`
	Manifest    string             `json:"manifest"`
	Where       string             `json:"where"`
	Place       string             `json:"place"`
	Trust       string             `json:"trust"`  // "unverified", always
	Format      string             `json:"format"` // "v1", "v2"
	Description string             `json:"description"`
	License     string             `json:"license"`
	Entrypoint  string             `json:"entrypoint"`
	Expires     string             `json:"expires,omitempty"`
	Requires    []manifest.Require `json:"requires"`
	SignedBy    []string           `json:"signed_by"` // unchecked fingerprints in signature lines
	Files       []manifest.File    `json:"files"`
	Bytes       int64              `json:"bytes"`
	*bundle.Inspection
	Failures []bundle.Finding `json:"failures"`
}

func (c *BundleInspectRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	work, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	found, err := work.Find(ctx, c.Bundle)
	if err != nil {
		return nil, err
	}
	progress := a.Progress("reading", 0)
	defer progress.Done()
	var wrong []*bundle.Failure // failures of v1 files, which Inspect doesn't read
	if found.V1 != nil {
		c, err := found.ReadV1(ctx)
		if err != nil {
			return nil, err
		}
		wrong = c.Failures
	}
	below, _, err := found.Below(ctx)
	if err != nil {
		return nil, err
	}
	inspected, err := bundle.Inspect(ctx, found.Source(progress.Counted), below, "")
	if err != nil {
		return nil, err
	}
	progress.Done()
	inspected.Failures = append(inspected.Failures, wrong...)
	ans := newBundleInspection(found, inspected)
	if err := corrupt(found, inspected.Failures); err != nil {
		return ans, err
	}
	if inspected.Bundle == nil {
		f := fault.New(fault.Parsing, "no readable manifest in %q", found.Place).On("failures", ans.Failures)
		for _, line := range ans.Failures {
			f.Why = append(f.Why, line.Text())
		}
		return ans, f
	}
	return ans, nil
}

// corrupt returns the error of an archive that import would refuse as corrupt, else nil.
func corrupt(l *find.Found, all []*bundle.Failure) error {
	for _, f := range all {
		if l.Where == find.InArchive && (f.Check == bundle.CheckArchive || f.Check == bundle.CheckDigest) {
			found := f.Finding()
			return fault.New(fault.Integrity, "%q: %s", l.Place,
				found.Text()).Because(found.Compared()...).On("failures", bundle.Findings(all)).From(f)
		}
	}
	return nil
}

func newBundleInspection(l *find.Found, n *bundle.Inspection) *BundleInspection {
	ans := &BundleInspection{Inspection: n, Bundle: l.ID, Where: l.Where, Place: l.Place, Trust: "unverified",
		Format: sign.V2.String(), Failures: bundle.Findings(n.Failures)}
	if l.V1 != nil {
		ans.Format = sign.V1.String()
	}
	b := n.Bundle
	if b == nil {
		return ans
	}
	ans.Bundle, ans.Version, ans.Manifest, ans.Files, ans.Bytes = b.BundleID, b.Version, b.ID.String(), b.Files,
		b.Bytes
	ans.Description, ans.License, ans.Entrypoint, ans.Expires = b.Description, b.License, b.Entrypoint,
		yamltree.DateText(b.Expires)
	ans.Requires, ans.SignedBy = b.Requires, b.SignedBy()
	return ans
}

// Text prints what the bundle declares, then everything that it could run, reach or read.
func (n *BundleInspection) Text(term *cli.Terminal) {
	if n.Manifest == "" {
		return
	}
	term.Note("not verified: everything here is what the bundle declares")
	rows := [][]string{{"bundle", n.Bundle + "@" + n.Version}, {"manifest", n.Manifest},
		{"in", n.Place + " (" + n.Where + ")"}}
	for _, line := range [][]string{{"description", n.Description}, {"license", n.License},
		{"entrypoint", n.Entrypoint}, {"expires", n.Expires}} {
		if line[1] != "" {
			rows = append(rows, line)
		}
	}
	for _, r := range n.Requires {
		rows = append(rows, []string{"requires", r.BundleID + " " + r.Version})
	}
	for _, s := range n.SignedBy {
		rows = append(rows, []string{"signature", "of " + paths.Short(s) + ", not checked"})
	}
	if n.Format == sign.V1.String() {
		rows = append(rows, []string{"format", "the first (v1)"})
	} else if len(n.SignedBy) == 0 && n.Where != find.InBinary {
		rows = append(rows, []string{"signature", "none"})
	}
	rows = append(rows, []string{"files", fmt.Sprintf("%d, %s", len(n.Files), cli.ByteSize(float64(n.Bytes)))})
	for _, e := range n.Evidence {
		rows = append(rows, []string{"evidence", e.Name + " (" + e.Type + ")"})
	}
	term.Rows(rows)
	term.Printf("items\n")
	rows = nil
	for _, it := range n.Items {
		risk := cmp.Or(it.Risk, "-")
		if it.Derived != "" {
			risk += " (derived)"
		}
		rows = append(rows, []string{"  " + it.Ref, cmp.Or(it.Version, "-"), risk, it.Description})
	}
	term.Rows(rows)
	for _, m := range []struct {
		what string
		all  []bundle.Mention
	}{{"can be executed", n.Executable}, {"what runs, or is sent", n.Runs}, {"hosts", n.Hosts},
		{"paths on the machine", n.Places}, {"secrets", n.Secrets},
		{"capabilities", n.Capabilities}, {"runs on, from outside", n.Outside}} {
		PrintMentions(term, m.what, m.all)
	}
	for _, f := range n.Failures {
		term.Printf("%s  %s\n", term.Stdout.Paint(cli.RoleWarn, "not as it says", term.Ascii), f.Text())
	}
}

// PrintMentions prints hosts, paths or the like that files mention, each with up to three of the files.
func PrintMentions(term *cli.Terminal, what string, all []bundle.Mention) {
	if len(all) == 0 {
		term.Printf("%s: none\n", what)
		return
	}
	term.Printf("%s\n", what)
	var rows [][]string
	for _, m := range all {
		paths := strings.Join(m.Paths[:min(len(m.Paths), 3)], ", ")
		if more := len(m.Paths) - 3; more > 0 {
			paths += fmt.Sprintf(" and %d more", more)
		}
		rows = append(rows, []string{"  " + m.What, paths})
	}
	term.Rows(rows)
}
