package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// VerifyOptions are the requirements for a bundle. Either Trust or Signers must be set.
type VerifyOptions struct {
	Trust *admission.Trust
	// Signers are fully trusted and replace a policy: Threshold of them must have signed the manifest, and one of
	// them each item. A Threshold of 0 means 1.
	Signers   []key.Public
	Threshold int
	Now       time.Time // used with Signers; a policy has its own

	// Below are the spaces that the bundle's items may use: the required bundles and the library. A tool's executor
	// can decide which files belong to the tool.
	Below []*ai.Space
	// Needs are the bundles that this one requires, found or not. If one is missing, an item whose executor is
	// missing counts by its own signature, for the tree that the signature names.
	Needs []Need
	// Closed makes each unmet Need a failure.
	Closed bool
	// AllowExtra allows other files in the bundle's directories.
	AllowExtra bool
	// Parts compares the items of a signed plugin with its parts, once all else is known to be good. Nil: they aren't
	// compared.
	Parts PartsVerifier
	// Require names evidence that must exist and be valid: SBOM, Provenance.
	Require []string
	// Statements are provenance files next to the bundle. Each must be valid, and about this manifest's id.
	Statements []Statement
	// Progress receives the number of verified files so far and their bytes, concurrently and in no order. It may be
	// nil.
	Progress func(files, bytes int64)
	// TempDir is the directory for the items of an archive during verification; "" for the system's.
	TempDir string
}

// A PartsVerifier compares the items of a signed plugin with what its skills and servers give (package exec/parts).
// files has the bytes of the bundle's files, and view its items above those that they may use.
type PartsVerifier func(ctx context.Context, b *Bundle, files cas.Getter, view *ai.View) ([]*Failure, error)

// A Need is a bundle that another one requires, and the version found.
type Need struct {
	Bundle  string `json:"bundle"`
	Version string `json:"version"`         // the required range
	Found   string `json:"found,omitempty"` // the version found
	Met     bool   `json:"met"`
}

// unmet returns the first unmet Need, or nil.
func unmet(needs []Need) *Need {
	i := slices.IndexFunc(needs, func(n Need) bool { return !n.Met })
	if i < 0 {
		return nil
	}
	return &needs[i]
}

// The kinds of evidence that can be required.
const (
	SBOM       = "sbom"
	Provenance = "provenance"
)

// A Statement is a provenance envelope (package provenance) that travels next to a bundle.
type Statement struct {
	Name     string // for the report
	Envelope []byte
}

// A Report is the result of a verification: the content, its signers and all failures.
type Report struct {
	*Bundle                  // nil without a readable manifest
	Manifest *admission.Exam // its signers and the policy's decision; nil without a Bundle

	Good     int64      // number of files that match the manifest
	Read     int64      // their bytes
	Vouched  []Vouched  // the admitted items, sorted by path
	Evidence []Attested // valid evidence in the manifest's order, then the valid statements
	Failures []*Failure // sorted by path; those of the whole bundle first
	// Never are files and directories that no bundle contains, sorted: those of version control, interpreters and
	// desktops (portable.Droppings). Their content was not checked.
	Never []string
}

// OK reports whether the bundle has no failures.
func (r *Report) OK() bool { return len(r.Failures) == 0 }

// A Vouched is an admitted item and its signers.
type Vouched struct {
	Path, Ref string
	Format    sign.Format
	Listed    bool // the manifest covers what its signature leaves open
	Tree      cas.Digest
	Files     int // number of files in its tree
	Signers   []sign.Signer
	Reason    string // as in policy.Answer.Reason
}

// An Attested is a file of evidence.
type Attested struct {
	manifest.Evidence
	Signers []key.Fingerprint `json:"signers"` // of valid provenance
	// About is the manifest id in a statement of VerifyOptions.Statements; zero for the manifest's own evidence.
	About cas.Digest `json:"about,omitzero"`
	parts bool       // an SBOM of this very bundle; checked only where one is required
}

// ErrNoTrust is the error of options with neither a policy nor signers.
var ErrNoTrust error = fault.New(fault.Validation, "no policy or signers given to verify against")

// Verify checks a whole bundle and uses no cache:
//
//   - the manifest: its signatures, as many as the policy or the threshold requires, and its end
//   - each file: that it exists, is a regular file, has the manifest's size, digest and mode, and is not revoked
//   - each item: that its ref and version are the manifest's, and that no other file has a ref; and its own signature,
//     which covers all files of a tool. A v1 signature counts if the policy accepts it, and the manifest, which
//     lists the item's digest, is itself admitted
//   - that no file is in a place that bundles never use: .ai/policy.yaml, .ai/keys and the like (recipe.Never), .AI
//   - that a directory has no other files below the directories of kinds and of assets. The report names files that
//     no bundle contains
//   - the evidence: that it matches the manifest, and that required evidence and the statements are valid
//
// Only files of the manifest decide what items mean. The Report has all failures, not just the first. An error is
// about something else: the context, or a source that is missing or unreadable.
func Verify(ctx context.Context, src Source, o VerifyOptions) (*Report, error) {
	trust, err := o.trust()
	if err != nil {
		return nil, err
	}
	v := &verification{options: &o, trust: trust, report: new(Report)}
	err = src.look(ctx, v.options, func(l *look) error { return v.run(ctx, l) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	r := v.report
	sortFailures(r.Failures)
	slices.SortFunc(r.Vouched, func(a, b Vouched) int { return cmp.Compare(a.Path, b.Path) })
	return r, nil
}

// Find returns the trusted key with a fingerprint.
func (o *VerifyOptions) Find(f key.Fingerprint) (key.Public, bool) {
	if o.Trust != nil {
		return o.Trust.Find(f)
	}
	for _, k := range o.Signers {
		if k.Fingerprint() == f {
			return k, true
		}
	}
	return key.Public{}, false
}

// trust returns the trust of the options. It turns Signers into a policy, so that both are decided in one way.
func (o *VerifyOptions) trust() (*admission.Trust, error) {
	if o.Trust != nil {
		return o.Trust, nil
	}
	if len(o.Signers) == 0 {
		return nil, ErrNoTrust
	}
	var keys, names strings.Builder
	for i, k := range o.Signers {
		fmt.Fprintf(&keys, "  k%d: {key: %q}\n", i, k.String())
		if i > 0 {
			names.WriteString(", ")
		}
		fmt.Fprintf(&names, "k%d", i)
	}
	p, err := policy.Parse(fmt.Appendf(nil,
		"rye: policy/2\n\nkeys:\n%s\nnames:\n  \"**\": {keys: [%s], accept: [v1, v2]}\n  \"bundle:**\": {keys: [%s], threshold: %d}\n",
		keys.String(), names.String(), names.String(), cmp.Or(o.Threshold, 1)))
	if err != nil {
		return nil, err
	}
	return &admission.Trust{Root: policy.Side{Policy: p}, Now: o.Now}, nil
}

type verification struct {
	options *VerifyOptions
	trust   *admission.Trust
	look    *look
	report  *Report

	mu           sync.Mutex
	files, bytes int64 // checked so far
}

func (v *verification) fail(f *Failure) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Failures = append(v.report.Failures, f)
}

func (v *verification) run(ctx context.Context, look *look) error {
	v.look, v.report.Failures = look, look.failures
	if look.bundle == nil {
		return nil
	}
	v.report.Bundle = look.bundle
	v.manifest()
	v.needs()
	v.revoked()
	items, err := v.newItems(ctx)
	if err != nil {
		return err
	}
	items.places()
	bundle := look.bundle
	checking, stop := context.WithCancel(ctx)
	defer stop()
	file := func(i int, read bool) error {
		good, err := items.file(checking, &bundle.Files[i], read)
		v.count(&bundle.Files[i], good)
		return err
	}
	checked := make(chan error, 1)
	go func() {
		if look.each != nil {
			checked <- look.each(checking, file)
			return
		}
		checked <- cas.Parallel(checking, 0, len(bundle.Files), func(_ context.Context, i int) error {
			return file(i, false)
		})
	}()
	if look.extra != nil && !v.options.AllowExtra { // runs while files are hashed, because it only lists directories
		if v.report.Never, err = look.extra(ctx, items.view.Kinds(), v.fail); err != nil {
			stop()
		}
	}
	if failed := <-checked; err == nil {
		err = failed
	}
	if err == nil {
		err = v.evidence(ctx)
	}
	if err == nil {
		err = v.parts(ctx, items)
	}
	return err
}

// parts compares the items of a plugin with its parts. An unsigned one has no items.
func (v *verification) parts(ctx context.Context, items *items) error {
	b := v.look.bundle
	if v.options.Parts == nil || b.Plugin == "" || len(v.report.Failures) > 0 || len(b.Signatures) == 0 &&
		!slices.ContainsFunc(b.Files, func(f manifest.File) bool { _, in := items.layout.In(f.Path); return in }) {
		return nil
	}
	failures, err := v.options.Parts(ctx, b, v.look.getter, items.view)
	v.report.Failures = append(v.report.Failures, failures...)
	return err
}

// count counts a checked file.
func (v *verification) count(f *manifest.File, good bool) {
	v.mu.Lock()
	if good {
		v.report.Good++
		v.report.Read += f.Size
	}
	v.files++
	v.bytes += f.Size
	files, bytes := v.files, v.bytes
	v.mu.Unlock()
	if v.options.Progress != nil {
		v.options.Progress(files, bytes)
	}
}

// Admit examines a manifest alone: callers that fetch a bundle check it before they fetch files. An error is about
// the manifest, a *NotAdmittedError if policy denies it. The Exam is set in either case.
func (o *VerifyOptions) Admit(b *Bundle) (*admission.Exam, error) {
	trust, err := o.trust()
	if err != nil {
		return nil, err
	}
	return admit(trust, b)
}

func admit(trust *admission.Trust, b *Bundle) (*admission.Exam, error) {
	e, err := trust.ExamineDocument(&b.Document, b.Expires, policy.ToUse)
	if err == nil && !e.Decision.Allowed {
		err = &NotAdmittedError{Name: b.Name, Decision: e.Decision}
	}
	return e, err
}

// manifest checks the manifest's signatures.
func (v *verification) manifest() {
	bundle := v.look.bundle
	e, err := admit(v.trust, bundle)
	v.report.Manifest = e
	if _, expired := errors.AsType[*admission.ExpiredError](err); expired {
		v.fail(&Failure{Check: CheckExpired, Err: err})
	} else if err != nil {
		v.fail(&Failure{Check: CheckSignatures, Err: err})
	}
	if bundle.Entrypoint != "" && !slices.ContainsFunc(bundle.Files, func(f manifest.File) bool {
		return f.Ref == bundle.Entrypoint
	}) {
		v.fail(&Failure{Check: CheckManifest, Expected: bundle.Entrypoint, Err: errEntrypoint})
	}
}

// needs reports required bundles that are missing.
func (v *verification) needs() {
	for _, n := range v.options.Needs {
		if v.options.Closed && !n.Met {
			v.fail(&Failure{Check: CheckRequires, Expected: n.Bundle + " " + n.Version, Found: n.Found})
		}
	}
}

// revoked reports files that the policy revokes. Items among them are examined elsewhere.
func (v *verification) revoked() {
	b := v.look.bundle
	Revoked(v.trust, b.Name, b.Files, func(f *manifest.File, d policy.Decision) {
		if f.Ref != "" {
			return
		}
		v.fail(&Failure{Check: CheckRevoked, Path: f.Path, Err: &NotAdmittedError{Name: b.Name, Decision: d}})
	})
}

// Revoked calls report for each file of a bundle that the policy revokes.
func Revoked(t *admission.Trust, name string, files []manifest.File, report func(*manifest.File, policy.Decision)) {
	ask := func(some []cas.Digest) policy.Decision {
		// With a voucher the signers don't matter: only revocations of the root's and the project's policy remain.
		return t.Decide(policy.Request{Name: name, Voucher: policy.Dev, Raw: some[0], Files: some})
	}
	all := make([]cas.Digest, len(files))
	for i := range files {
		all[i] = files[i].Digest
	}
	// One query for all files, because the answer is almost always no.
	if len(all) == 0 || ask(all).Code != policy.DigestRevoked {
		return
	}
	for i := range files {
		if d := ask(all[i : i+1]); d.Code == policy.DigestRevoked {
			report(&files[i], d)
		}
	}
}

var errEntrypoint = errors.New("the entrypoint is not an item of the bundle")

// admitted reports whether policy admits the manifest.
func (v *verification) admitted() bool { return v.report.Manifest.Decision.Allowed }

// A NotAdmittedError reports that policy doesn't admit a manifest.
type NotAdmittedError struct {
	Name     string // as in signatures
	Decision policy.Decision
	// If no key of the policy signed: the source's claims about the signers. Nothing trusts them.
	From       string // a path or an address; empty if unknown
	Signatures manifest.Signatures
	Keys       []manifest.SignerKey
	Names      []string // globs that cover what was signed; nil: those of Name
	Left       []string // why signatures were ignored
}

func (e *NotAdmittedError) Error() string { return fmt.Sprintf("%q %s", e.Name, e.Decision.Reason()) }

// Fault returns e with the code of the policy's decision.
func (e *NotAdmittedError) Fault() *fault.Error {
	d := &e.Decision
	f := fault.New(d.Code.Fault(), "%s", e).From(e).On("reason", d.Code.String()).On("name", e.Name).On("rule",
		d.Rule).Try("rye trust check " + fault.Quote(e.Name))
	if d.Revoked != nil {
		f.On("revoked", d.Revoked.What()).On("revoked_because", d.Revoked.Reason)
	}
	if d.List != "" {
		f.On("list", d.List)
	}
	return f.List(e.Left...)
}
