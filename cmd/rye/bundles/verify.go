package bundles

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/tlog"
)

// BundleVerifyRun is rye bundle verify. Tools of the library use it too (package functions).
type BundleVerifyRun struct {
	Bundle     string   `arg:"" optional:"" complete:"bundle|path" help:"Bundle; default: the project's."`
	AllowExtra bool     `name:"allow-extra" help:"Allow files that are not in the bundle."`
	Closed     bool     `help:"Fail if a required bundle is missing."`
	Require    []string `placeholder:"EVIDENCE" help:"Required evidence: sbom, provenance."`
	Statement  []string `placeholder:"FILE" sep:"none" complete:"file" help:"Provenance statement that must match this bundle (repeatable)."`
	spaces.SignerFlags
}

// BundleReport is the result of a verification: the bundle, its signers, the rule that decided, and every failure.
type BundleReport struct {
	Bundle   string `json:"bundle"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"` // its id
	Where    string `json:"where"`    // "project", "installed", "store", "archive", "binary"
	Place    string `json:"place"`
	Allowed  bool   `json:"allowed"`
	Trust    string `json:"trust"` // "signed", "builtin", "unsigned", "refused"
	Files    int64  `json:"files"` // files that match the manifest
	Of       int    `json:"of_files"`
	Bytes    int64  `json:"bytes"`
	Items    int    `json:"items"` // valid items
	Extra    bool   `json:"extra_allowed"`
	// extra files that never belong to a bundle; they were not read
	Never     []string             `json:"never_bundled"`
	Rule      string               `json:"rule"`
	Count     int                  `json:"count"`
	Threshold int                  `json:"threshold"`
	Signers   []signing.SignerLine `json:"signers"` // of the manifest
	Vouched   []vouchedLine        `json:"vouched"` // the signers of the items
	Policy    string               `json:"policy"`  // the policy file that decided; empty with --signer
	PolicyID  string               `json:"policy_id"`
	Origin    string               `json:"origin"` // of the policy, as in rye verify; "--signer" without one
	Expires   string               `json:"expires,omitempty"`
	Requires  []bundle.Need        `json:"requires"` // required bundles, found or missing; a v1 bundle has none
	Evidence  []bundle.Attested    `json:"evidence"`
	Failures  []bundle.Finding     `json:"failures"`
	Warnings  []string             `json:"warnings"`
	Format    string               `json:"format"` // of the manifest: "v1", "v2"
	Proof     *workspace.Proof     `json:"proof,omitempty"`

	found *find.Found
}

// vouchedLine counts the items that one key has signed.
type vouchedLine struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Items int    `json:"items"`
}

func (c *BundleVerifyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, c.Bundle, c.Signer, func() (cli.Answer, error) { return c.verify(ctx, a) })
}

func (c *BundleVerifyRun) verify(ctx context.Context, app *cli.App) (cli.Answer, error) {
	for _, want := range c.Require {
		if want != bundle.SBOM && want != bundle.Provenance {
			return nil, items.Unknown("evidence", want, []string{bundle.SBOM, bundle.Provenance})
		}
	}
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	found, err := work.Find(ctx, c.Bundle)
	if err != nil {
		return nil, err
	}
	if found.Where == find.InBinary {
		return c.library(ctx, app, found)
	}
	vouching, err := c.Vouching(ctx, app)
	if err != nil {
		f := fault.Of(err)
		if len(c.Signer) > 0 || c.Threshold != nil {
			return nil, f // invalid flags are a usage error, not a failed verification
		}
		return nil, f.Asked()
	}
	if found.V1 != nil {
		return c.verifyV1(ctx, work, found, vouching)
	}
	if vouching.Options.Statements, err = c.statements(app); err != nil {
		return nil, err
	}
	progress := app.Progress("verifying", found.Size())
	defer progress.Done()
	if found.Archive == nil { // progress.Counted counts an archive while it is read
		vouching.Options.Progress = progress.Reached()
	}
	if vouching.Options.Below, vouching.Options.Needs, err = found.Below(ctx); err != nil {
		return nil, err
	}
	vouching.Options.AllowExtra, vouching.Options.Require, vouching.Options.Closed = c.AllowExtra, c.Require, c.Closed
	archive := &digested{Hasher: cas.NewHasher()}
	report, err := bundle.Verify(ctx, found.Source(func(r io.Reader) io.Reader {
		return io.TeeReader(progress.Counted(r), archive)
	}), vouching.Options)
	if err != nil {
		return nil, err
	}
	progress.Done()
	proof, err := prove(ctx, work, found, vouching, report, archive)
	if err != nil {
		return nil, err
	}
	ans := newBundleReport(found, vouching, report)
	ans.Proof = proof
	ans.Extra = c.AllowExtra
	return c.answer(app, ans, report.Failures)
}

// A digested archive is one that was read: its digest and size.
type digested struct {
	cas.Hasher
	size int64
}

// Write implements io.Writer.
func (d *digested) Write(b []byte) (int, error) {
	d.size += int64(len(b))
	return d.Hasher.Write(b)
}

// prove checks the proof of a bundle that is verified otherwise. One that doesn't fit is a failure of the bundle.
func prove(ctx context.Context, work *paths.Workspace, found *find.Found, vouching *spaces.Vouching,
	report *bundle.Report, archive *digested) (*workspace.Proof, error) {
	if !report.OK() || report.Bundle == nil {
		return nil, nil
	}
	if vouching.Trust == nil { // --signer, which reads nothing in the home directory
		if proof, _ := workspace.ReadProof(found.File()); proof == nil {
			return nil, nil
		}
		return &workspace.Proof{Unchecked: "with --signer only the given keys count"}, nil
	}
	of := tlog.Release{Bundle: report.BundleID, Version: report.Version, Manifest: report.ID}
	if found.Archive != nil {
		of.Archive, of.Size = archive.Digest(), archive.size
	}
	proof, err := work.Proof(ctx, of, found.File())
	if err != nil && ctx.Err() == nil {
		report.Failures = append(report.Failures, &bundle.Failure{Check: bundle.CheckProof, Err: err})
		err = nil
	}
	return proof, err
}

// statements reads the files of --statement.
func (c *BundleVerifyRun) statements(a *cli.App) (all []bundle.Statement, err error) {
	for _, name := range c.Statement {
		s := a.Absolute(cli.Setting{Value: name})
		if s.Err != nil {
			return nil, s.Err
		}
		text, err := osfile.ReadSmall(s.Value, attest.MaxEnvelope)
		if err != nil {
			return nil, err
		}
		all = append(all, bundle.Statement{Name: name, Envelope: text})
	}
	return all, nil
}

// answer prints the warnings and returns the report, with an error if there are failures.
func (c *BundleVerifyRun) answer(a *cli.App, ans *BundleReport, failures []*bundle.Failure) (cli.Answer, error) {
	for _, w := range ans.Warnings {
		a.Term.Warn("%s", w)
	}
	if f := ans.fault(failures); f != nil {
		return ans, f.Asked()
	}
	return ans, nil
}

func newBundleReport(l *find.Found, vouching *spaces.Vouching, report *bundle.Report) *BundleReport {
	ans := &BundleReport{found: l, Bundle: l.ID, Format: l.Format(), Where: l.Where, Place: l.Place, Trust: "refused",
		Files: report.Good, Bytes: report.Read, Items: len(report.Vouched), Allowed: report.OK(),
		Requires: vouching.Options.Needs, Origin: "--signer", Never: report.Never}
	if vouching.Trust != nil {
		root := vouching.Trust.Root
		ans.Policy, ans.PolicyID, ans.Origin = root.Path, root.Side.Policy.ID().String(), root.Origin
	}
	if report.Bundle != nil {
		l.ID = report.BundleID
		ans.Bundle, ans.Version, ans.Manifest, ans.Of = report.BundleID, report.Version, report.ID.String(),
			len(report.Bundle.Files)
		ans.Expires = yamltree.DateText(report.Expires)
		switch {
		case report.OK():
			ans.Trust = "signed"
		case len(report.Signatures) == 0:
			ans.Trust = "unsigned"
		}
	}
	if exam := report.Manifest; exam != nil {
		decision := &exam.Decision
		ans.Rule, ans.Count, ans.Threshold, ans.Warnings = decision.Rule, decision.Count, decision.Threshold,
			append(ans.Warnings, decision.Warnings...)
		if vouching.Trust != nil {
			au := vouching.Trust.Root
			if decision.Project && vouching.Trust.Project != nil {
				au = vouching.Trust.Project
				ans.Policy, ans.PolicyID, ans.Origin = au.Path, au.Side.Policy.ID().String(), au.Origin
			}
			ans.Signers = append(ans.Signers, signing.SignerLines(au, exam, decision.Signers)...)
		} else {
			ans.Signers = append(ans.Signers, signing.SignerLines(nil, exam, decision.Signers)...)
			for i := range ans.Signers {
				ans.Signers[i].Name = vouching.Names[ans.Signers[i].Key]
			}
		}
	}
	ans.vouched(vouching, report)
	ans.Evidence, ans.Failures = report.Evidence, bundle.Findings(report.Failures)
	return ans
}

// vouched fills in how many items each key has signed, sorted by key.
func (r *BundleReport) vouched(vouching *spaces.Vouching, found *bundle.Report) {
	items := map[string]int{}
	for i := range found.Vouched {
		for _, s := range found.Vouched[i].Signers {
			items[s.Key.Fingerprint().String()]++
		}
	}
	for id, n := range items {
		l := vouchedLine{Key: id, Name: vouching.Names[id], Items: n}
		for _, s := range found.Vouched {
			for _, signer := range s.Signers {
				if vouching.Trust != nil && l.Name == "" && signer.Key.Fingerprint().String() == id {
					if k, ok := vouching.Trust.Root.Side.Policy.Key(signer.Key.Fingerprint()); ok {
						l.Name = k.Name
					}
				}
			}
		}
		r.Vouched = append(r.Vouched, l)
	}
	slices.SortFunc(r.Vouched, func(a, b vouchedLine) int { return cmp.Compare(a.Key, b.Key) })
}

// fault returns the error of a refused bundle with the gravest code of all failures, or nil without failures.
func (r *BundleReport) fault(all []*bundle.Failure) *fault.Error {
	if len(all) == 0 {
		return nil
	}
	var codes []fault.Code
	for _, l := range r.Failures {
		codes = append(codes, l.Code)
	}
	what := fault.Count(int64(len(all)), "failure")
	if len(all) == 1 {
		what = r.Failures[0].Text()
	}
	f := fault.New(fault.Gravest(codes), "the bundle %q is refused: %s", cmp.Or(r.name(), r.Place), what).
		On("failures", r.Failures).Try(r.found.Hints(all, r.Origin != "--signer")...)
	if len(all) == 1 {
		f.Because(r.Failures[0].Compared()...).From(all[0])
	}
	return f
}

func (r *BundleReport) name() string {
	if r.Version == "" {
		return r.Bundle
	}
	return r.Bundle + "@" + r.Version
}

// Text prints the failures, or else what was checked and which signers and rule admit the bundle.
func (r *BundleReport) Text(term *cli.Terminal) {
	if !r.Allowed {
		for _, f := range r.Failures {
			term.Printf("%s  %s  %s\n", term.Stdout.Paint(cli.RoleError, "refused", term.Ascii), string(f.Code),
				f.Text())
			for _, line := range f.Compared() {
				term.Printf("         %s\n", line)
			}
		}
		return
	}
	term.Printf("%s  %s\n", term.Stdout.Paint(cli.RoleGood, "verified", term.Ascii), r.name())
	files := fmt.Sprintf("%s, %s: each ", fault.Count(r.Files, "file"), cli.ByteSize(float64(r.Bytes)))
	rows := [][]string{{"  manifest", r.Manifest}}
	switch {
	case r.Format == sign.V1.String():
		rows = append(rows, []string{"  format", "the first (v1), which the policy accepts"})
		files += "digest; extra files were not checked"
	case r.Extra:
		files += "digest, size, type and mode; extra files are allowed"
	default:
		files += "digest, size, type and mode; no extra file"
		if n := len(r.Never); n > 0 {
			files += " except " + fault.Count(int64(n), "file") + " that no bundle contains"
		}
	}
	rows = append(rows, [][]string{{"  in", r.Place + " (" + r.Where + ")"}, {"  files", files},
		{"  items", r.itemWords()}}...)
	for _, name := range r.Never[:min(len(r.Never), fault.MaxLines)] {
		rows = append(rows, []string{"  beside", name})
	}
	for _, n := range r.Requires {
		state := "missing: of items that run on it, only signatures were checked"
		if n.Met {
			state = n.Found
		} else if n.Found != "" {
			state = n.Found + " is here; " + state
		}
		rows = append(rows, []string{"  requires", n.Bundle + " " + n.Version + " (" + state + ")"})
	}
	for _, s := range r.Signers {
		rows = append(rows, []string{"  signed by", who(s)})
	}
	for _, e := range r.Evidence {
		who := ""
		if len(e.Signers) > 0 {
			who = ", signed by " + paths.Short(e.Signers[0].String())
		}
		if !e.About.IsZero() {
			rows = append(rows, []string{"  statement", e.Name + ": about this manifest" + who})
			continue
		}
		rows = append(rows, []string{"  evidence", fmt.Sprintf("%s (%s)%s", e.Name, e.Type, who)})
	}
	if r.Proof != nil {
		rows = append(rows, []string{"  log", logWords(r.Proof)})
	}
	switch {
	case r.Trust == "builtin":
		rows = append(rows, []string{"  rule", "it is part of this binary, which vouches for it"})
	case r.Policy == "":
		rows = append(rows, []string{"  rule", fmt.Sprintf("%d of the given keys, %s needed", r.Count,
			fault.Count(int64(r.Threshold), "key"))})
	default:
		rows = append(rows, []string{"  rule", spaces.RuleText(r.Rule, r.Threshold, r.Count)})
		rows = append(rows, []string{"  policy", fmt.Sprintf("%s (%s)", r.Policy, r.Origin)})
	}
	if r.Expires != "" {
		rows = append(rows, []string{"  expires", r.Expires})
	}
	term.Rows(rows)
}

// logWords describes what the log of a registry says of a bundle.
func logWords(p *workspace.Proof) string {
	if p.Proven == nil {
		return "not checked: " + p.Unchecked
	}
	return fmt.Sprintf("entry %d of %q, published at %s by %s; witnesses that have signed it: %d", p.Entry, p.Log,
		p.Time.Format(time.RFC3339), p.By, p.Cosigned)
}

// itemWords describes the items: how many each key has signed.
func (r *BundleReport) itemWords() string {
	if r.Trust == "builtin" {
		return fmt.Sprintf("%d, by the binary", r.Items)
	}
	var who []string
	for _, v := range r.Vouched {
		who = append(who, fmt.Sprintf("%d by %s", v.Items, cmp.Or(v.Name, paths.Short(v.Key))))
	}
	if len(who) == 0 {
		return fmt.Sprint(r.Items)
	}
	return fmt.Sprintf("%d, signed: %s", r.Items, strings.Join(who, ", "))
}

// who formats a signer: name, key and owner, and why it doesn't count.
func who(s signing.SignerLine) string {
	who := paths.Short(s.Key)
	if s.Name != "" {
		who = fmt.Sprintf("%q %s", s.Name, who)
	}
	if s.Owner != "" {
		who += ", " + s.Owner
	}
	if s.Verdict != policy.Admitted.String() {
		who += ": does not count, " + s.Verdict
	}
	return who
}
