package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func bundleVerifyCommand() command {
	return command{
		path: "bundle verify", group: "bundles", help: "Say whether a bundle is what its makers signed, and by whose word.",
		more: "It reads every byte, whatever is remembered from before: the signatures of the manifest and its end; of every file its digest, size, " +
			"type and mode; every item's own signature; and that nothing is missing and nothing is there besides. All that is wrong is told, " +
			"each with what was expected. If anything is, the exit status is 1.\n\n" +
			"Whom to believe the policy says, or --trust FILE, or --signer: with that nothing in the home directory is asked. --require wants " +
			"evidence that holds: sbom, provenance. --statement FILE is provenance that travels beside the bundle, as rye bundle attest writes it: " +
			"it must be about this very manifest, and be signed by those who may vouch for the bundle.\n\nA bundle of the first format (v1) " +
			"verifies where the policy accepts v1 for its name and for its items: its files by their digests, and what else is there is not looked for.\n\nExamples:\n\n    rye bundle verify\n    rye bundle verify acme/deploy --allow-extra\n" +
			"    rye bundle verify deploy.tar.zst --statement provenance.json --require provenance\n" +
			"    rye bundle verify deploy.tar.zst --signer alice.pem --signer bob.pem --threshold 2\n    rye bundle verify rye/std",
		aka: []string{"bundle check", "bundle audit"},
		new: func() runner { return new(bundleVerifyRun) }, schema: "bundle-verify/1", output: &bundleReport{},
	}
}

type bundleVerifyRun struct {
	Bundle     string   `arg:"" optional:"" complete:"bundle" help:"A bundle; the project's when left out."`
	AllowExtra bool     `name:"allow-extra" help:"Let other files be where the bundle's are, as in a working tree."`
	Require    []string `placeholder:"EVIDENCE" help:"What must be there and hold: sbom, provenance."`
	Statement  []string `placeholder:"FILE" sep:"none" complete:"file" help:"A statement on how this very bundle was made, which must hold. May be given again."`
	signerFlags
}

// bundleReport is what was looked at, who vouches, and all that is wrong.
type bundleReport struct {
	Bundle    string          `json:"bundle"`
	Version   string          `json:"version"`
	Manifest  string          `json:"manifest"` // its id
	Where     string          `json:"where"`    // "project", "installed", "store", "archive", "binary"
	Place     string          `json:"place"`
	Allowed   bool            `json:"allowed"`
	Trust     string          `json:"trust"` // "signed", "builtin", "unsigned", "refused"
	Files     int64           `json:"files"` // as the manifest says
	Of        int             `json:"of_files"`
	Bytes     int64           `json:"bytes"`
	Items     int             `json:"items"` // that hold
	Extra     bool            `json:"extra_allowed"`
	Never     []string        `json:"never_bundled"` // what stands beside the files and is of no bundle; nobody looked into it
	Rule      string          `json:"rule"`
	Count     int             `json:"count"`
	Threshold int             `json:"threshold"`
	Signers   []signerLine    `json:"signers"` // of the manifest
	Vouched   []vouchedLine   `json:"vouched"` // who signed the items
	Policy    string          `json:"policy"`  // the file that decided; empty with --signer
	PolicyID  string          `json:"policy_id"`
	Origin    string          `json:"origin"` // as in verify; "--signer"
	Expires   string          `json:"expires,omitempty"`
	Evidence  []evidenceLine  `json:"evidence"`
	Failures  []bundleFailure `json:"failures"`
	Warnings  []string        `json:"warnings"`
	Format    string          `json:"format"` // of the manifest: "v1", "v2"
}

// vouchedLine is how many items one key has signed.
type vouchedLine struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Items int    `json:"items"`
}

type evidenceLine struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Digest  string   `json:"digest"`
	Bytes   int64    `json:"bytes"`
	Signers []string `json:"signers"`         // fingerprints
	About   string   `json:"about,omitempty"` // of a statement beside the manifest: the id that it speaks about
}

// bundleFailure is one thing that is wrong with a bundle.
type bundleFailure struct {
	Check    string     `json:"check"`
	Code     fault.Code `json:"code"`
	Path     string     `json:"path"` // empty for the bundle as a whole
	Ref      string     `json:"ref,omitempty"`
	Expected string     `json:"expected,omitempty"`
	Found    string     `json:"found,omitempty"`
	LineEnds bool       `json:"only_line_endings_differ,omitempty"`
	Message  string     `json:"message"`
}

func (c *bundleVerifyRun) run(ctx context.Context, a *app) (answer, error) {
	for _, want := range c.Require {
		if want != bundle.SBOM && want != bundle.Provenance {
			return nil, unknownName("evidence", want, []string{bundle.SBOM, bundle.Provenance})
		}
	}
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	defer b.close()
	l, err := b.locate(ctx, c.Bundle)
	if err != nil {
		return nil, err
	}
	if l.where == inBinary {
		return c.library(ctx, a, l)
	}
	v, err := c.vouching(ctx, a)
	if err != nil {
		f := classify(err)
		if len(c.Signer) > 0 || c.Threshold != nil {
			return nil, f // the flags make no sense: there was no question yet
		}
		return nil, f.Asked()
	}
	if l.first != nil {
		return c.first(ctx, b, l, v)
	}
	if v.options.Statements, err = c.statements(a); err != nil {
		return nil, err
	}
	p := a.progress("verifying", l.size())
	defer p.Done()
	if l.where != inArchive { // which is counted as it is read
		v.options.Progress = p.reached()
	}
	var src bundle.Source
	if src, v.options.Below, err = b.source(ctx, l, p); err != nil {
		return nil, err
	}
	v.options.AllowExtra, v.options.Require = c.AllowExtra, c.Require
	r, err := bundle.Verify(ctx, src, v.options)
	if err != nil {
		return nil, err
	}
	p.Done()
	ans := newBundleReport(l, v, r)
	ans.Extra = c.AllowExtra
	return c.answer(a, ans, r.Failures)
}

// statements reads what is said beside the bundle.
func (c *bundleVerifyRun) statements(a *app) (all []bundle.Statement, err error) {
	for _, name := range c.Statement {
		s := a.absolute(setting{value: name})
		if s.err != nil {
			return nil, s.err
		}
		text, err := readSmall(s.value, attest.MaxEnvelope)
		if err != nil {
			return nil, err
		}
		all = append(all, bundle.Statement{Name: name, Envelope: text})
	}
	return all, nil
}

// answer is the report, and a refusal if anything is wrong.
func (c *bundleVerifyRun) answer(a *app, ans *bundleReport, failures []*bundle.Failure) (answer, error) {
	for _, w := range ans.Warnings {
		a.term.warn("%s", w)
	}
	if f := ans.fault(failures); f != nil {
		return ans, f.Asked()
	}
	return ans, nil
}

func newBundleReport(l *located, v *vouching, r *bundle.Report) *bundleReport {
	ans := &bundleReport{Bundle: l.id, Format: sign.V2.String(), Where: l.where, Place: l.place, Trust: "refused", Files: r.Good, Bytes: r.Read, Items: len(r.Vouched), Allowed: r.OK(),
		Signers: []signerLine{}, Vouched: []vouchedLine{}, Evidence: []evidenceLine{}, Failures: []bundleFailure{}, Warnings: []string{}, Origin: "--signer", Never: append([]string{}, r.Never...)}
	if v.trust != nil {
		root := v.trust.root
		ans.Policy, ans.PolicyID, ans.Origin = root.path, root.side.Policy.ID().String(), root.origin
	}
	if r.Bundle != nil {
		ans.Bundle, ans.Version, ans.Manifest, ans.Of = r.BundleID, r.Version, r.ID.String(), len(r.Bundle.Files)
		ans.Expires = dateText(r.Expires)
		switch {
		case r.OK():
			ans.Trust = "signed"
		case len(r.Signatures) == 0:
			ans.Trust = "unsigned"
		}
	}
	if e := r.Manifest; e != nil {
		d := &e.Decision
		ans.Rule, ans.Count, ans.Threshold, ans.Warnings = d.Rule, d.Count, d.Threshold, append(ans.Warnings, d.Warnings...)
		if v.trust != nil {
			au := v.trust.root
			if d.Project && v.trust.project != nil {
				au = v.trust.project
				ans.Policy, ans.PolicyID, ans.Origin = au.path, au.side.Policy.ID().String(), au.origin
			}
			ans.Signers = append(ans.Signers, signerLines(au, examined{Exam: e}, d.Signers)...)
		} else {
			ans.Signers = append(ans.Signers, v.signerLines(examined{Exam: e})...)
		}
	}
	ans.vouched(v, r)
	for _, e := range r.Evidence {
		line := evidenceLine{Name: e.Name, Type: e.Type, Digest: e.Digest.String(), Bytes: e.Size, Signers: []string{}}
		for _, k := range e.Signers {
			line.Signers = append(line.Signers, k.Fingerprint().String())
		}
		if e.Beside {
			line.About = ans.Manifest
		}
		ans.Evidence = append(ans.Evidence, line)
	}
	for _, f := range r.Failures {
		ans.Failures = append(ans.Failures, newBundleFailure(f))
	}
	return ans
}

// signerLines are those of keys that were given, under the names that they were given by.
func (v *vouching) signerLines(e examined) (lines []signerLine) {
	for _, d := range e.Decision.Signers {
		l := signerLine{Key: d.Key.String(), Name: v.names[d.Key.String()], Format: d.Format.String(), Verdict: d.Code.String()}
		for _, s := range e.Signers {
			if s.Key.Fingerprint() == d.Key {
				l.Time = s.Time.Format(time.RFC3339)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// vouched counts the items of each key.
func (r *bundleReport) vouched(v *vouching, found *bundle.Report) {
	items := map[string]int{}
	for i := range found.Vouched {
		for _, s := range found.Vouched[i].Signers {
			items[s.Key.Fingerprint().String()]++
		}
	}
	for id, n := range items {
		l := vouchedLine{Key: id, Name: v.names[id], Items: n}
		for _, s := range found.Vouched {
			for _, signer := range s.Signers {
				if v.trust != nil && l.Name == "" && signer.Key.Fingerprint().String() == id {
					if k, ok := v.trust.root.side.Policy.Key(signer.Key.Fingerprint()); ok {
						l.Name = k.Name
					}
				}
			}
		}
		r.Vouched = append(r.Vouched, l)
	}
	slices.SortFunc(r.Vouched, func(a, b vouchedLine) int { return cmp.Compare(a.Key, b.Key) })
}

// newBundleFailure says what is wrong in the words of this program.
func newBundleFailure(f *bundle.Failure) bundleFailure {
	out := bundleFailure{Check: string(f.Check), Code: failureCode(f), Path: f.Path, Ref: f.Ref, Expected: f.Expected, Found: f.Found, LineEnds: f.OnlyLineEndings,
		Message: failureWords(f)}
	if f.Err != nil {
		inner := classify(f.Err)
		if out.Expected == "" && out.Found == "" {
			out.Expected, _ = inner.Details["expected"].(string)
			out.Found, _ = inner.Details["found"].(string)
		}
		if ends, _ := inner.Details["only_line_endings_differ"].(bool); ends {
			out.LineEnds = true
		}
	}
	return out
}

// failureCode is the code of what is wrong.
func failureCode(f *bundle.Failure) fault.Code {
	switch f.Check {
	case bundle.CheckExpired:
		return fault.Expired
	case bundle.CheckManifest, bundle.CheckSignatures, bundle.CheckRevoked, bundle.CheckItem, bundle.CheckRead:
		if f.Err != nil {
			if c := classify(f.Err).Line().Code; c != fault.Unknown {
				return c
			}
		}
	case bundle.CheckEvidence:
		return fault.Policy
	}
	return fault.Integrity
}

// failureWords says in a line what is wrong with a file, or with the bundle as a whole.
func failureWords(f *bundle.Failure) string {
	words := map[bundle.Check]string{
		bundle.CheckArchive: "is no archive of a bundle", bundle.CheckManifest: "the manifest is wrong", bundle.CheckSignatures: "the manifest's signatures are not enough",
		bundle.CheckExpired: "the bundle has expired", bundle.CheckMissing: "is missing", bundle.CheckExtra: "is not in the manifest",
		bundle.CheckType: "is no regular file", bundle.CheckSize: "has another size", bundle.CheckDigest: "has other bytes",
		bundle.CheckMode: "has another mode", bundle.CheckRead: "can't be read", bundle.CheckRef: "is called by another name in the manifest",
		bundle.CheckVersion: "has another version in the manifest", bundle.CheckRevoked: "is revoked", bundle.CheckItem: "the item is refused",
		bundle.CheckEvidence: "evidence is wanted that isn't there or doesn't hold",
	}[f.Check]
	if f.OnlyLineEndings {
		words += ": only line endings differ"
	}
	if f.Err != nil {
		words += ": " + strings.TrimPrefix(classify(f.Err).Text, "not an archive of a bundle: ")
	}
	return words
}

// fault says that the bundle is refused, and with the code of the gravest failure; nil if nothing is wrong.
func (r *bundleReport) fault(all []*bundle.Failure) *fault.Error {
	if len(all) == 0 {
		return nil
	}
	f := &fault.Error{Text: fmt.Sprintf("the bundle %q is refused: %s", cmp.Or(r.name(), r.Place), fault.Count(int64(len(all)), "failure")), Details: map[string]any{"failures": r.Failures}}
	var codes []fault.Code
	for i, l := range r.Failures {
		codes = append(codes, l.Code)
		if len(all) == 1 {
			f.Text = fmt.Sprintf("the bundle %q is refused: %s", cmp.Or(r.name(), r.Place), l.text())
			f.Why = l.compared()
			f.Err = all[i]
		}
	}
	f.Code = fault.Gravest(codes)
	f.Hint = r.hints(all)
	return f
}

// hints are the commands that say more or help.
func (r *bundleReport) hints(all []*bundle.Failure) (hints []string) {
	asked := r.Origin != "--signer" // the policy
	for _, f := range all {
		switch f.Check {
		case bundle.CheckSignatures:
			if !asked {
				hints = append(hints, inspectHint(r.Where, r.Place, r.Bundle)...)
				break
			}
			hints = append(hints, "rye trust check "+fault.Quote("bundle:"+r.Bundle))
		case bundle.CheckExtra:
			hints = append(hints, "rye bundle verify "+fault.Quote(r.Bundle)+" --allow-extra")
		}
		if r.Where == inProject && (asked || f.Check != bundle.CheckItem) {
			hints = append(hints, r.mends(f)...)
		}
		if f.OnlyLineEndings {
			hints = append(hints, "echo '.ai/** -text' >> .gitattributes")
		}
	}
	slices.Sort(hints)
	hints = slices.Compact(hints)
	return hints[:min(len(hints), 4)]
}

// inspectHint is the command that says who signed a bundle, for whoever believes keys and not the policy.
func inspectHint(where, place, id string) []string {
	switch {
	case place == standardInput:
		return nil // it is read
	case where == inProject, where == inArchive:
		return []string{"rye bundle inspect " + fault.Quote(place)}
	}
	return []string{"rye bundle inspect " + fault.Quote(id)}
}

// mends are the commands that make a bundle of the project what it should be.
func (r *bundleReport) mends(f *bundle.Failure) []string {
	switch f.Check {
	case bundle.CheckItem:
		return []string{"rye verify " + fault.Quote(cmp.Or(f.Ref, f.Path))}
	case bundle.CheckDigest, bundle.CheckSize, bundle.CheckMode, bundle.CheckMissing, bundle.CheckVersion:
		return []string{"rye bundle create " + fault.Quote(r.Bundle)}
	case bundle.CheckEvidence:
		switch f.Expected {
		case bundle.SBOM:
			return []string{"rye bundle sbom " + fault.Quote(r.Bundle) + " --embed"}
		case bundle.Provenance:
			return []string{"rye bundle attest " + fault.Quote(r.Bundle) + " --embed"}
		}
	}
	return nil
}

func (r *bundleReport) name() string {
	if r.Version == "" {
		return r.Bundle
	}
	return r.Bundle + "@" + r.Version
}

// text is a failure in one line.
func (f bundleFailure) text() string {
	if f.Path == "" {
		return f.Message
	}
	return fmt.Sprintf("%q %s", f.Path, f.Message)
}

// compared is what was expected and what was found.
func (f bundleFailure) compared() (lines []string) {
	if f.Expected != "" || f.Found != "" {
		lines = append(lines, "expected  "+cmp.Or(f.Expected, "none"), "found     "+cmp.Or(f.Found, "none"))
	}
	return lines
}

// text says what was checked, and by whose word, or all that is wrong.
func (r *bundleReport) text(t *terminal) {
	if !r.Allowed {
		for _, f := range r.Failures {
			t.printf("%s  %s  %s\n", t.stdout.paint(roleError, "refused", t.ascii), string(f.Code), f.text())
			for _, line := range f.compared() {
				t.printf("         %s\n", line)
			}
		}
		return
	}
	t.printf("%s  %s\n", t.stdout.paint(roleGood, "verified", t.ascii), r.name())
	files := fmt.Sprintf("%s, %s: each ", fault.Count(r.Files, "file"), byteSize(float64(r.Bytes)))
	rows := [][]string{{"  manifest", r.Manifest}}
	switch {
	case r.Format == sign.V1.String():
		rows = append(rows, []string{"  format", "the first (v1), which the policy accepts"})
		files += "digest; others were not looked for"
	case r.Extra:
		files += "digest, size, type and mode; others were let be"
	default:
		files += "digest, size, type and mode; no other"
		if n := len(r.Never); n > 0 {
			files += " but " + fault.Count(int64(n), "thing") + " that no bundle holds"
		}
	}
	rows = append(rows, [][]string{{"  in", r.Place + " (" + r.Where + ")"}, {"  files", files}, {"  items", r.itemWords()}}...)
	for _, name := range r.Never[:min(len(r.Never), fault.MaxLines)] {
		rows = append(rows, []string{"  beside", name})
	}
	for _, s := range r.Signers {
		rows = append(rows, []string{"  signed by", s.who()})
	}
	for _, e := range r.Evidence {
		who := ""
		if len(e.Signers) > 0 {
			who = ", signed by " + short(e.Signers[0])
		}
		if e.About != "" {
			rows = append(rows, []string{"  statement", e.Name + ": about this manifest" + who})
			continue
		}
		rows = append(rows, []string{"  evidence", fmt.Sprintf("%s (%s)%s", e.Name, e.Type, who)})
	}
	switch {
	case r.Trust == "builtin":
		rows = append(rows, []string{"  rule", "it is part of this binary, which vouches for it"})
	case r.Policy == "":
		rows = append(rows, []string{"  rule", fmt.Sprintf("%d of the keys given, %s needed", r.Count, fault.Count(int64(r.Threshold), "key"))})
	default:
		rows = append(rows, []string{"  rule", fmt.Sprintf("%q, %d of %s", r.Rule, r.Count, fault.Count(int64(r.Threshold), "key"))})
		rows = append(rows, []string{"  policy", fmt.Sprintf("%s (%s)", r.Policy, r.Origin)})
	}
	if r.Expires != "" {
		rows = append(rows, []string{"  expires", r.Expires})
	}
	t.rows(rows)
}

// itemWords says who signed how many of the items.
func (r *bundleReport) itemWords() string {
	if r.Trust == "builtin" {
		return fmt.Sprintf("%d, by the binary", r.Items)
	}
	var who []string
	for _, v := range r.Vouched {
		who = append(who, fmt.Sprintf("%d by %s", v.Items, cmp.Or(v.Name, short(v.Key))))
	}
	if len(who) == 0 {
		return fmt.Sprint(r.Items)
	}
	return fmt.Sprintf("%d, signed: %s", r.Items, strings.Join(who, ", "))
}

// who is a signer for people.
func (s signerLine) who() string {
	who := short(s.Key)
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
