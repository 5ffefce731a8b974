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

// VerifyOptions say what a bundle has to pass. Either Trust or Signers must be given.
type VerifyOptions struct {
	Trust *admission.Trust
	// Signers are believed in all things instead of a policy: Threshold of them must have signed the manifest, and one
	// of them each item. A Threshold of 0 is 1.
	Signers   []key.Public
	Threshold int
	Now       time.Time // with Signers; a policy comes with its own

	// Below are the spaces that the bundle's items may use: those that it requires, and the library. Which files
	// belong to a tool can depend on what runs it.
	Below []*ai.Space
	// Needs are the bundles that this one requires, and which of them are in Below. Where one isn't, an item whose
	// executor isn't found counts by its own signature: the tree that this vouches for is the one that it names.
	Needs []Need
	// Closed makes each unmet Need a failure.
	Closed bool
	// AllowExtra lets there be other files where the bundle's are.
	AllowExtra bool
	// Require names evidence that must be there and hold: SBOM, Provenance.
	Require []string
	// Statements are on how the bundle was made, and travel beside it: each must hold, and be about this manifest's
	// id.
	Statements []Statement
	// Progress receives the number of files verified so far and their bytes, from many goroutines in no order. It may
	// be nil.
	Progress func(files, bytes int64)
	// TempDir is where the items of an archive are kept while they are looked at; "" for the system's place.
	TempDir string
}

// A Need is a bundle that another one requires, and what is here of it.
type Need struct {
	Bundle  string `json:"bundle"`
	Version string `json:"version"`         // the range that it has to be in
	Found   string `json:"found,omitempty"` // the version that is here
	Met     bool   `json:"met"`
}

// unmet returns the first Need that isn't met, nil if all are.
func unmet(needs []Need) *Need {
	i := slices.IndexFunc(needs, func(n Need) bool { return !n.Met })
	if i < 0 {
		return nil
	}
	return &needs[i]
}

// What can be required.
const (
	SBOM       = "sbom"
	Provenance = "provenance"
)

// A Statement is an envelope that travels beside a bundle, as package provenance makes it.
type Statement struct {
	Name     string // for the report
	Envelope []byte
}

// A Report is what was looked at, who vouches for it, and all that is wrong.
type Report struct {
	*Bundle                  // nil if there is no manifest that can be read
	Manifest *admission.Exam // who signed it, and what policy says; nil without a Bundle

	Good     int64      // files that are as the manifest says
	Read     int64      // bytes of them
	Vouched  []Vouched  // the items that hold, sorted by path
	Evidence []Attested // the evidence that is as the manifest says, in its order, and the statements that hold
	Failures []*Failure // sorted by path; those of the whole bundle first
	// Never are files and directories in a directory that are of no bundle, sorted: what version control, interpreters
	// and desktops leave behind (portable.Droppings). What is in them was not looked at.
	Never []string
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Failures) == 0 }

// A Vouched is an item that policy lets be used, and who signed it.
type Vouched struct {
	Path, Ref string
	Format    sign.Format
	Listed    bool // what its signature leaves open, the manifest vouches for
	Tree      cas.Digest
	Files     int // of its tree
	Signers   []sign.Signer
	Reason    string // as policy.Answer.Reason has it
}

// An Attested is a file of evidence.
type Attested struct {
	manifest.Evidence
	Signers []key.Fingerprint `json:"signers"` // of provenance that holds
	// About is the id of the manifest that one of VerifyOptions.Statements speaks about; zero for the manifest's own.
	About cas.Digest `json:"about,omitzero"`
	parts bool       // a list of parts of this very bundle; looked at where one is required
}

// ErrNoTrust says that neither a policy nor signers were given.
var ErrNoTrust error = fault.New(fault.Validation, "no policy or signers given to verify against")

// Verify looks at everything in a bundle and believes no cache:
//
//   - the manifest: its signatures, as many as policy or the threshold asks for, and its end
//   - each file: that it is there, a file, with the size, digest and mode of the manifest, and not revoked
//   - each item: that it is one of the ref and version that the manifest gives, and no file is one without; its own
//     signature, which for a tool of several files covers them as well. A v1 signature counts where policy
//     accepts it and the manifest, which lists the item's digest, is itself admitted
//   - that no file stands where a bundle never has any: .ai/policy.yaml, .ai/keys and the like (recipe.Never), .AI
//   - that there is nothing else: in a directory, below the directories of the kinds and wherever assets stand, but
//     for what no bundle ever has, which the report names
//   - the evidence: that it is as the manifest says, and of what is required that it holds; and statements beside it
//
// What items mean is found out from the files of the manifest alone. All that is wrong is reported, not the first of
// it. An error is about something else: the context, or that the source as a whole isn't there or can't be read.
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

// Find finds a trusted key by its fingerprint.
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

// trust returns the trust that the options define. Signers become a policy, so that there is one way to decide.
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
	files, bytes int64 // looked at
}

func (v *verification) fail(f *Failure) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Failures = append(v.report.Failures, f)
}

func (v *verification) run(ctx context.Context, l *look) error {
	v.look, v.report.Failures = l, l.failures
	if l.bundle == nil {
		return nil
	}
	v.report.Bundle = l.bundle
	v.manifest()
	v.needs()
	v.revoked()
	items, err := v.newItems(ctx)
	if err != nil {
		return err
	}
	items.places()
	b := l.bundle
	checking, stop := context.WithCancel(ctx)
	defer stop()
	file := func(i int, read bool) error {
		good, err := items.file(checking, &b.Files[i], read)
		v.count(&b.Files[i], good)
		return err
	}
	checked := make(chan error, 1)
	go func() {
		if l.each != nil {
			checked <- l.each(checking, file)
			return
		}
		checked <- cas.Parallel(checking, 0, len(b.Files), func(_ context.Context, i int) error {
			return file(i, false)
		})
	}()
	if l.extra != nil && !v.options.AllowExtra { // while files are hashed: it only lists directories
		if v.report.Never, err = l.extra(ctx, items.view.Kinds(), v.fail); err != nil {
			stop()
		}
	}
	if failed := <-checked; err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return v.evidence(ctx)
}

// count notes that a file was looked at.
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

// Admit examines a manifest alone, before any of its files is read: callers that fetch a bundle check it first.
// An error is what is wrong with the manifest, a *NotAdmittedError if policy says no. The Exam is there in any case.
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

// manifest looks at who vouches for the manifest.
func (v *verification) manifest() {
	b := v.look.bundle
	e, err := admit(v.trust, b)
	v.report.Manifest = e
	if _, expired := errors.AsType[*admission.ExpiredError](err); expired {
		v.fail(&Failure{Check: CheckExpired, Err: err})
	} else if err != nil {
		v.fail(&Failure{Check: CheckSignatures, Err: err})
	}
	if b.Entrypoint != "" && !slices.ContainsFunc(b.Files, func(f manifest.File) bool {
		return f.Ref == b.Entrypoint
	}) {
		v.fail(&Failure{Check: CheckManifest, Expected: b.Entrypoint, Err: errEntrypoint})
	}
}

// needs looks for bundles that this one requires and that aren't here.
func (v *verification) needs() {
	for _, n := range v.options.Needs {
		if v.options.Closed && !n.Met {
			v.fail(&Failure{Check: CheckRequires, Expected: n.Bundle + " " + n.Version, Found: n.Found})
		}
	}
}

// revoked looks for files that policy has taken out of use.
func (v *verification) revoked() {
	b := v.look.bundle
	Revoked(v.trust, b.Name, b.Files, func(f *manifest.File, d policy.Decision) {
		v.fail(&Failure{Check: CheckRevoked, Path: f.Path, Err: &NotAdmittedError{Name: b.Name, Decision: d}})
	})
}

// Revoked tells of each file of a bundle with this name that policy has taken out of use. Those that are items are
// asked about as such, elsewhere.
func Revoked(t *admission.Trust, name string, files []manifest.File, tell func(*manifest.File, policy.Decision)) {
	ask := func(some []cas.Digest) policy.Decision {
		// With a voucher who signs has no say: what is left is what revokes, in the root and in the project's policy.
		return t.Decide(policy.Request{Name: name, Voucher: policy.Dev, Raw: some[0], Files: some})
	}
	all := make([]cas.Digest, len(files))
	for i := range files {
		all[i] = files[i].Digest
	}
	// One question for all, since the answer is no almost always.
	if len(all) == 0 || ask(all).Code != policy.DigestRevoked {
		return
	}
	for i := range files {
		if f := &files[i]; f.Ref == "" {
			if d := ask(all[i : i+1]); d.Code == policy.DigestRevoked {
				tell(f, d)
			}
		}
	}
}

var errEntrypoint = errors.New("the entrypoint is not an item of the bundle")

// admitted reports whether the manifest vouches for what it lists.
func (v *verification) admitted() bool { return v.report.Manifest.Decision.Allowed }

// A NotAdmittedError says that policy doesn't admit a manifest.
type NotAdmittedError struct {
	Name     string // as signatures have it
	Decision policy.Decision
	// Where no key of the policy signed, what the source claims about those that did. Nothing trusts it.
	From       string // a path or an address; empty where that isn't known
	Signatures manifest.Signatures
	Keys       []manifest.SignerKey
	Left       []string // why which of its signatures don't count
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
