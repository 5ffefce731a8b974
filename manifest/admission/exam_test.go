package admission_test

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var alice, bob, eve = keytest.Alice(), keytest.Bob(), keytest.Eve()

// side is a policy in which $alice, $bob and $eve stand for their keys.
func side(t testing.TB, text string) policy.Side {
	t.Helper()
	for name, k := range map[string]key.Private{"alice": alice, "bob": bob, "eve": eve} {
		text = strings.ReplaceAll(text, "$print-"+name, k.Public().Fingerprint().String())
		text = strings.ReplaceAll(text, "$"+name, k.Public().String())
	}
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy.Side{Policy: p}
}

const two = `
keys:
  alice: {key: "$alice"}
  bob: {key: "$bob"}
names:
  "**": {keys: [alice, bob]}
  "policy:*": {keys: [alice]}
  "revocations:**": {keys: [alice]}
  "audit:**": {keys: [alice]}
  "tool:old/*": {keys: [alice], accept: [v1, v2]}
  "rotated/**": {keys: [alice, bob], threshold: 2}
`

func trust(t testing.TB, text string) *admission.Trust {
	return &admission.Trust{Root: side(t, text), Now: noon}
}

// signed signs bytes as a subject, in the second format.
func signed(t testing.TB, s admission.Subject, b string, keys ...key.Private) []byte {
	t.Helper()
	out := []byte(b)
	for _, k := range keys {
		var err error
		if out, err = sign.Sign(out, s.Signing(), s.Claim(), k, noon, nil); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func item(name string) admission.Subject { return admission.Subject{Name: name, Style: sign.Hash} }

const source = "#!/usr/bin/env python3\nprint('hello')\n"

const list = `rye: "manifest/2"
id: "acme/x"
version: "1.0.0"
expires: "2027-01-01T00:00:00Z"
files:
  "README.md": {digest: "blake3:4a4f1ca41ec1ab4a5d1a5d5d5a5b5c5d5e5f6061626364656667686970717273", size: 6, mode: "file"}
`

const revocations = `rye: "revocations/2"
name: "acme"
counter: 7
issued: "2026-11-20T11:00:00Z"
expires: "2026-12-20T12:00:00Z"
`

func TestExamine(t *testing.T) {
	tool := item("tool:acme/t")
	bundle := admission.Subject{Name: "bundle:acme/x@1.0.0"}
	tree, file := cas.Sum([]byte("tree")), cas.Sum([]byte("file"))
	withTree := admission.Subject{Name: "tool:acme/t", Style: sign.Hash, Tree: tree, Files: []cas.Digest{file}}
	other := withTree
	other.Tree = cas.Sum([]byte("another tree"))
	damaged := bytes.Replace(signed(t, tool, source, alice), []byte("hello"), []byte("hallo"), 1)
	broken := append(signed(t, tool, source, alice)[:0:0],
		bytes.Replace(signed(t, tool, source, alice), []byte("rye:signed:v2:2"), []byte("rye:signed:v2:3"), 1)...)
	v1, err := sign.SignV1([]byte(source), admission.Subject{Name: "tool:old/t", Style: sign.Hash}.Signing(), alice,
		noon)
	if err != nil {
		t.Fatal(err)
	}
	by := func(s admission.Subject, v policy.Voucher) admission.Subject { s.Voucher = v; return s }
	listed := item("tool:old/t")
	listed.Listed = true

	for _, c := range []struct {
		name    string
		subject admission.Subject
		file    []byte
		purpose policy.Purpose
		policy  string
		code    policy.Code // of the decision
		err     error       // of the same type, or that very one
	}{
		{name: "signed", subject: tool, file: signed(t, tool, source, alice), code: policy.Admitted},
		{name: "by two", subject: tool, file: signed(t, tool, source, alice, bob), code: policy.Admitted},
		{name: "and by a stranger", subject: tool, file: signed(t, tool, source, eve, alice), code: policy.Admitted},
		{name: "by a stranger", subject: tool, file: signed(t, tool, source, eve), code: policy.UntrustedKey},
		{name: "unsigned", subject: tool, file: []byte(source), code: policy.Unsigned},
		{name: "no comments", subject: admission.Subject{Name: "tool:acme/t"}, file: []byte(source),
			code: policy.Unsigned},
		{name: "empty", subject: tool, file: nil, code: policy.Unsigned},
		{name: "changed", subject: tool, file: damaged, err: &sign.IntegrityError{}},
		{name: "forged", subject: tool, file: broken, err: &sign.SignatureInvalidError{}},
		{name: "for another name", subject: item("tool:acme/u"), file: signed(t, tool, source, alice),
			err: &sign.SignatureInvalidError{}},
		{name: "for another purpose", subject: admission.Subject{Name: "audit:t"},
			file: signed(t, tool, source, alice), err: &sign.SignatureInvalidError{}},
		{name: "no name", subject: item("tool:../t"), file: []byte(source), code: policy.BadRequest},
		{name: "no kind", subject: item("t"), file: []byte(source), code: policy.BadRequest},
		{name: "with a tree", subject: withTree, file: signed(t, withTree, source, alice), code: policy.Admitted},
		{name: "with another tree", subject: other, file: signed(t, withTree, source, alice),
			err: &sign.IntegrityError{}},
		{name: "without its tree", subject: tool, file: signed(t, withTree, source, alice),
			err: &sign.IntegrityError{}},
		{name: "a file of the tree is revoked", subject: withTree, file: signed(t, withTree, source, alice),
			policy: two + "revoked:\n  \"" + file.String() + "\": {}\n", code: policy.DigestRevoked},
		{name: "admitted by digest", subject: item("knowledge:x"), file: []byte("x"),
			policy: two + "digests:\n  \"" + cas.Sum([]byte("x")).String() + "\": {}\n", code: policy.Admitted},

		{name: "first format, to use", subject: item("tool:old/t"), file: v1, code: policy.EvidenceOnly},
		{name: "first format, to show", subject: item("tool:old/t"), file: v1, purpose: policy.ToShow,
			code: policy.Admitted},
		{name: "first format, listed", subject: listed, file: v1, code: policy.Admitted},
		{name: "first format, not accepted", subject: tool, file: v1, code: policy.FormatNotAccepted},
		{name: "first format, of a stranger", subject: item("tool:old/t"),
			file: bytes.Replace(v1, []byte(alice.Public().V1ID()), []byte(eve.Public().V1ID()), 1),
			code: policy.UntrustedKey},

		{name: "builtin, unsigned", subject: by(tool, policy.Builtin), file: []byte(source), code: policy.Admitted},
		{name: "dev, changed", subject: by(tool, policy.Dev), file: damaged, code: policy.Admitted},
		{name: "dev, revoked", subject: by(tool, policy.Dev), file: []byte(source),
			policy: two + "revoked:\n  \"" + cas.Sum([]byte(source)).String() + "\": {}\n",
			code:   policy.DigestRevoked},
		{name: "dev, with half a signature line", subject: by(tool, policy.Dev), file: []byte("# rye:signed:v2:x\n"),
			code: policy.Admitted},
		{name: "with half a signature line", subject: tool, file: []byte("# rye:signed:v2:x\n"),
			err: &sign.IntegrityError{}},
		{name: "dev, of a format to come", subject: by(tool, policy.Dev), file: []byte("# rye:signed:v9:2026\n"),
			code: policy.Admitted},
		{name: "of a format to come", subject: tool, file: []byte("# rye:signed:v9:2026\n"),
			err: &sign.VersionError{}},

		{name: "bundle", subject: bundle, file: signed(t, bundle, list, alice), code: policy.Admitted},
		{name: "bundle, unsigned", subject: bundle, file: []byte(list), code: policy.Unsigned},
		{name: "bundle, unsigned and no document", subject: bundle, file: []byte("x"), code: policy.Unsigned},
		{name: "bundle, signed and no document", subject: bundle, file: signed(t, bundle, "x\n", alice),
			code: policy.Admitted, err: anyError{}},
		{name: "bundle of another name", subject: admission.Subject{Name: "bundle:acme/y@1.0.0"},
			file: signed(t, admission.Subject{Name: "bundle:acme/y@1.0.0"}, list, alice),
			code: policy.Admitted, err: &admission.NameError{}},
		{name: "bundle of another version", subject: admission.Subject{Name: "bundle:acme/x@1.0.1"},
			file: signed(t, admission.Subject{Name: "bundle:acme/x@1.0.1"}, list, alice),
			code: policy.Admitted, err: &admission.NameError{}},
		{name: "bundle past its end", subject: bundle,
			file: signed(t, bundle, strings.Replace(list, "2027-01-01T00:00:00Z", "2026-11-20T12:00:00Z", 1), alice),
			code: policy.Admitted, err: &admission.ExpiredError{}},
		{name: "bundle, builtin and another", subject: by(admission.Subject{Name: "bundle:rye/std@1.0.0"},
			policy.Builtin), file: []byte(list),
			code: policy.Admitted, err: &admission.NameError{}},
		{name: "revocations", subject: admission.Subject{Name: "revocations:acme"},
			file: signed(t, admission.Subject{Name: "revocations:acme"}, revocations, alice), code: policy.Admitted},
		{name: "revocations, not ours", subject: admission.Subject{Name: "revocations:other"},
			file: signed(t, admission.Subject{Name: "revocations:other"}, revocations, alice),
			code: policy.Admitted, err: &admission.NameError{}},
		{name: "revocations, malformed", subject: admission.Subject{Name: "revocations:acme"},
			file: signed(t, admission.Subject{Name: "revocations:acme"}, "rye: \"revocations/2\"\n", alice),
			code: policy.Admitted, err: anyError{}},
		{name: "policy", subject: admission.Subject{Name: "policy:team"},
			file: signed(t, admission.Subject{Name: "policy:team"}, "rye: policy/2\n", alice), code: policy.Admitted},
		{name: "policy, malformed", subject: admission.Subject{Name: "policy:team"},
			file: signed(t, admission.Subject{Name: "policy:team"}, "rye: {{\n", alice), code: policy.Admitted,
			err: anyError{}},
		{name: "policy, too large", subject: admission.Subject{Name: "policy:team"},
			file: signed(t, admission.Subject{Name: "policy:team"}, strings.Repeat("#\n", 1<<20), alice),
			code: policy.Admitted, err: anyError{}},
		{name: "audit", subject: admission.Subject{Name: "audit:1"},
			file: signed(t, admission.Subject{Name: "audit:1"}, "x\n", alice), code: policy.Admitted},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.policy
			if text == "" {
				text = two
			}
			e, err := trust(t, text).Examine(c.subject, bytes.NewReader(c.file), c.purpose)
			if !sameKind(err, c.err) {
				t.Fatalf("got the error %v, want one like %T", err, c.err)
			}
			if e.Decision.Code != c.code {
				t.Errorf("decided %v (%s), want %v", e.Decision.Code, e.Decision.Reason(), c.code)
			}
			if e.Decision.Allowed && err == nil && e.Signed.Raw != cas.Sum(c.file) {
				t.Errorf("allowed %v, not what was read", e.Signed.Raw)
			}
		})
	}
}

// A signature of the first format is for no name: what it stands in must say itself what it is.
func TestV1(t *testing.T) {
	says := func(name string, ends time.Time, err error) func(io.Reader) (admission.Identity, error) {
		return func(r io.Reader) (admission.Identity, error) {
			if b, err := io.ReadAll(r); err != nil || !bytes.Contains(b, []byte("hello")) {
				t.Errorf("read %q, %v", b, err)
			}
			return admission.Identity{Name: name, Expires: ends}, err
		}
	}
	s := admission.Subject{Name: "bundle:acme/x@1.0.0"}
	file, err := sign.SignV1([]byte(source), s.Signing(), alice, noon)
	if err != nil {
		t.Fatal(err)
	}
	text := two + "  \"bundle:acme/*\": {keys: [alice], accept: [v1, v2]}\n"
	for _, c := range []struct {
		name    string
		read    func(io.Reader) (admission.Identity, error)
		purpose policy.Purpose
		policy  string
		want    error
	}{
		{name: "unread", want: reason("first-format-unread")},
		{name: "unread, to show", purpose: policy.ToShow},
		{name: "unread, listed by its digest", policy: text + "digests:\n  \"" + cas.Sum(file).String() + "\": {}\n"},
		{name: "this bundle", read: says(s.Name, time.Time{}, nil)},
		{name: "another", read: says("bundle:acme/y@1.0.0", time.Time{}, nil), want: &admission.NameError{}},
		{name: "another, to show", read: says("bundle:acme/y@1.0.0", time.Time{}, nil), purpose: policy.ToShow,
			want: &admission.NameError{}},
		{name: "says nothing", read: says("", time.Time{}, nil), want: reason("first-format-unread")},
		{name: "past its end", read: says(s.Name, noon, nil), want: &admission.ExpiredError{}},
		{name: "none", read: says("", time.Time{}, errDisk), want: errDisk},
	} {
		x := trust(t, cmp.Or(c.policy, text))
		s.V1 = c.read
		if e, err := x.Examine(s, bytes.NewReader(file), c.purpose); !sameKind(err, c.want) || !e.Decision.Allowed {
			t.Errorf("%s: %v, %v", c.name, e.Decision.Code, err)
		} else if err == nil && c.read != nil && e.Identity.Name != s.Name {
			t.Errorf("%s: it is %+v", c.name, e.Identity)
		}
		if c.read == nil {
			continue
		}
		if _, err := x.Examine(s, &failing{bytes.NewReader(file), 1}, c.purpose); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// anyError stands for errors of the rooms below that have no one type.
type anyError struct{}

func (anyError) Error() string { return "any" }

// A reason is that of a fault.
type reason string

func (r reason) Error() string { return string(r) }

func sameKind(got, want error) bool {
	switch want := want.(type) {
	case nil:
		return got == nil
	case reason:
		return got != nil && fault.Of(got).Details["reason"] == string(want)
	case anyError:
		return got != nil
	case *sign.IntegrityError:
		_, ok := errors.AsType[*sign.IntegrityError](got)
		return ok
	case *sign.SignatureInvalidError:
		_, ok := errors.AsType[*sign.SignatureInvalidError](got)
		return ok
	case *sign.VersionError:
		_, ok := errors.AsType[*sign.VersionError](got)
		return ok
	case *admission.NameError:
		_, ok := errors.AsType[*admission.NameError](got)
		return ok
	case *admission.ExpiredError:
		_, ok := errors.AsType[*admission.ExpiredError](got)
		return ok
	}
	return errors.Is(got, want)
}

// A project's policy forbids, and its keys are known for that alone.
func TestProject(t *testing.T) {
	tool := item("tool:acme/t")
	strict := side(t, "keys:\n  bob: {key: \"$bob\"}\n  eve: {key: \"$eve\"}\nnames:\n  \"**\": {keys: [bob, eve]}\n")
	x := trust(t, two)
	x.Project = &strict
	for name, c := range map[string]struct {
		keys []key.Private
		code policy.Code
	}{
		"both know bob":           {[]key.Private{bob}, policy.Admitted},
		"the project lacks her":   {[]key.Private{alice}, policy.UntrustedKey},
		"the root lacks her":      {[]key.Private{eve}, policy.UntrustedKey},
		"one for each of the two": {[]key.Private{alice, eve}, policy.Admitted},
	} {
		e, err := x.Examine(tool, bytes.NewReader(signed(t, tool, source, c.keys...)), policy.ToUse)
		if err != nil || e.Decision.Code != c.code {
			t.Errorf("%s: %v, %v", name, e.Decision.Code, err)
		}
	}
	if got := x.FindV1(bob.Public().V1ID()); len(got) != 2 {
		t.Errorf("the first format finds %d keys in two policies", len(got))
	}
}

// Without a policy no key is trusted, whatever is asked.
func TestNobody(t *testing.T) {
	x := &admission.Trust{Now: noon}
	rotation := admission.Subject{Name: "rotation:rotated/**"}
	for _, s := range []admission.Subject{item("tool:acme/t"), rotation, {Name: "tool:acme/t", Voucher: policy.Dev}} {
		e, err := x.Examine(s, bytes.NewReader([]byte(source)), policy.ToUse)
		if err != nil || e.Decision.Code != policy.BadRequest {
			t.Errorf("%s: %v, %v", s.Name, e.Decision.Code, err)
		}
	}
}

func TestExamineDocument(t *testing.T) {
	l, _, err := manifest.ParseFileList([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	x := trust(t, two)
	check := func(name string, code policy.Code, want error) {
		t.Helper()
		e, err := x.ExamineDocument(&l.Document, l.Expires, policy.ToUse)
		if e.Decision.Code != code || !sameKind(err, want) {
			t.Errorf("%s: %v, %v; want %v, %v", name, e.Decision.Code, err, code, want)
		}
		if (e.Signed.Format == sign.V2) != (len(l.Signatures) > 0) ||
			(e.Identity.Name != "") != (code == policy.Admitted) {
			t.Errorf("%s: the format %v, the identity %+v", name, e.Signed.Format, e.Identity)
		}
	}
	check("unsigned", policy.Unsigned, nil)
	if err := l.Sign(eve, noon); err != nil {
		t.Fatal(err)
	}
	check("by a stranger", policy.UntrustedKey, nil)
	if err := l.Sign(alice, noon); err != nil {
		t.Fatal(err)
	}
	check("signed", policy.Admitted, nil)
	x.Root = side(t, two+"revoked:\n  \""+l.ID.String()+"\": {}\n")
	check("revoked", policy.DigestRevoked, nil)
	x.Root, x.Now = side(t, two), l.Expires
	check("past its end", policy.Admitted, &admission.ExpiredError{})
	l.Signatures[0].Sig[3] ^= 1
	l.Signatures[1].Sig[3] ^= 1
	check("forged", policy.Undecided, &sign.SignatureInvalidError{})
}

// swapped is another document each time it is read from the beginning.
type swapped struct {
	*bytes.Reader
	rest [][]byte
}

func (s *swapped) Seek(offset int64, whence int) (int64, error) {
	if offset == 0 && whence == io.SeekStart && len(s.rest) > 0 {
		s.Reader, s.rest = bytes.NewReader(s.rest[0]), s.rest[1:]
	}
	return s.Reader.Seek(offset, whence)
}

// What changes between two readings was never verified.
func TestChanged(t *testing.T) {
	x := trust(t, two)
	bundle, team := admission.Subject{Name: "bundle:acme/x@1.0.0"}, admission.Subject{Name: "policy:team"}
	step := admission.Subject{Name: "rotation:rotated/**"}
	for _, c := range []struct {
		subject admission.Subject
		first   []byte
		then    []byte
	}{
		{bundle, signed(t, bundle, list, alice), []byte(strings.Replace(list, "size: 6", "size: 7", 1))},
		{team, signed(t, team, "rye: policy/2\n", alice), []byte("rye: policy/2\n\n")},
		{step, rotation(t, alice, bob, eve), rotation(t, alice, eve)[1:]},
		{step, signed(t, step, "x\n", alice), rotation(t, alice, bob, eve)},
	} {
		r := &swapped{rest: [][]byte{c.first, c.then}}
		if _, err := x.Examine(c.subject, r, policy.ToUse); err == nil {
			t.Errorf("%s: taken", c.subject.Name)
		}
	}
	r := &swapped{rest: [][]byte{signed(t, bundle, list, alice),
		[]byte(strings.Replace(list, "size: 6", "size: 7", 1))}}
	if _, err := x.Examine(bundle, r, policy.ToUse); !errors.Is(err, admission.ErrChanged) {
		t.Errorf("got %v, want %v", err, admission.ErrChanged)
	}
}

// rotation is a rotation by which eve's key takes the place of alice's.
func rotation(t testing.TB, keys ...key.Private) []byte {
	t.Helper()
	b, doc, err := manifest.AppendRotation(nil, policy.Rotation{
		Rule: "rotated/**", Before: []key.Fingerprint{alice.Public().Fingerprint(), bob.Public().Fingerprint()},
		Retire: alice.Public().Fingerprint(), Key: policy.Key{Name: "eve", Public: eve.Public()},
		Expires: noon.Add(time.Hour),
	})
	for _, k := range keys {
		if err == nil {
			err = doc.Sign(k, noon)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Join(nil, b, doc.Signatures)
}

func TestRotation(t *testing.T) {
	subject := admission.Subject{Name: "rotation:rotated/**"}
	id := func(b []byte) string {
		body, _, err := manifest.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		return cas.Sum(body).String()
	}
	for _, c := range []struct {
		name    string
		subject admission.Subject
		file    []byte
		policy  string
		now     time.Time
		code    policy.Code
		reason  string
		err     error
	}{
		{name: "all", file: rotation(t, alice, bob, eve), code: policy.Admitted,
			reason: `can be applied: signed by 2 of 2 keys under "rotated/**" and by the new key`},
		{name: "unsigned", file: rotation(t), code: policy.Unsigned},
		{name: "by strangers", file: rotation(t, keytest.Seeded(9)), code: policy.UntrustedKey},
		{name: "without the new key", file: rotation(t, alice, bob), code: policy.BelowThreshold,
			reason: "it is not signed by the new key"},
		{name: "by the new key alone", file: rotation(t, eve), code: policy.BelowThreshold,
			reason: "it is signed by 0 of the 2 keys"},
		{name: "by too few", file: rotation(t, alice, eve), code: policy.BelowThreshold,
			reason: "it is signed by 1 of the 2 keys"},
		{name: "past its end", file: rotation(t, alice, bob, eve), now: noon.Add(time.Hour), code: policy.Expired},
		{name: "by a revoked key", file: rotation(t, alice, bob, eve),
			policy: two + "revoked:\n  \"key:$print-bob\": {}\n", code: policy.KeyRevoked},
		{name: "revoked", file: rotation(t, alice, bob, eve),
			policy: two + "revoked:\n  \"" + id(rotation(t)) + "\": {reason: \"taken back\"}\n",
			code:   policy.DigestRevoked, reason: `it is revoked: ` + id(rotation(t)) + `, "taken back"`},
		{name: "a list is stale", file: rotation(t, alice, bob, eve),
			policy: two + "lists:\n  acme: {from: \"x\", key: alice, max-age: \"7d\"}\n",
			code:   policy.ListStale, reason: `the revocation list "acme" was never fetched`},
		{name: "of a rule that isn't there", file: rotation(t, alice, bob, eve),
			policy: strings.Replace(two, "rotated/**", "rotten/**", 1), code: policy.NoRule},
		{name: "under a name that is taken", file: rotation(t, alice, bob, eve),
			policy: strings.Replace(two, "  bob: {",
				"  eve: {key: \"mNDVtIRMzeJB7IRW4sjjq8w6NzdmRmGyXkFTXPJKc1o\"}\n  bob: {", 1),
			code: policy.BadRequest},
		{name: "of another rule", subject: admission.Subject{Name: "rotation:acme/**"},
			file: rotation(t, alice, bob, eve), err: &admission.NameError{}},
		{name: "forged", file: bytes.Replace(rotation(t, alice, bob, eve), []byte("signed:v2:2026"),
			[]byte("signed:v2:2025"), 1), err: &sign.SignatureInvalidError{}},
		{name: "no document", file: signed(t, subject, "x\n", alice), err: anyError{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := trust(t, two)
			if c.policy != "" {
				x.Root = side(t, c.policy)
			}
			if !c.now.IsZero() {
				x.Now = c.now
			}
			s := c.subject
			if s.Name == "" {
				s = subject
			}
			// A project has no say in it.
			never := side(t, "rye: policy/2\n")
			x.Project = &never
			before := x.Root.Policy.ID()
			e, err := x.Examine(s, bytes.NewReader(c.file), policy.ToUse)
			if !sameKind(err, c.err) || e.Decision.Code != c.code || !strings.Contains(e.Decision.Reason(), c.reason) {
				t.Fatalf("got %v (%s), %v", e.Decision.Code, e.Decision.Reason(), err)
			}
			if c.code == policy.Admitted && (len(e.Signers) != 3 || e.Identity.Name != subject.Name ||
				!e.Identity.Expires.Equal(noon.Add(time.Hour))) {
				t.Errorf("signed by %v, it is %+v", e.Signers, e.Identity)
			}
			if x.Root.Policy.ID() != before {
				t.Error("asking has changed the policy")
			}
		})
	}
}

// failing fails at one call.
type failing struct {
	*bytes.Reader
	seeks int // that succeed
}

var errDisk = errors.New("disk")

func (f *failing) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		if f.seeks--; f.seeks < 0 {
			return 0, errDisk
		}
	}
	return f.Reader.Seek(offset, whence)
}

type unreadable struct{ *bytes.Reader }

func (unreadable) Read([]byte) (int, error) { return 0, fs.ErrClosed }

func TestUnreadable(t *testing.T) {
	x := trust(t, two)
	bundle, step := admission.Subject{Name: "bundle:acme/x@1.0.0"}, admission.Subject{Name: "rotation:rotated/**"}
	for n := range 2 {
		if _, err := x.Examine(bundle, &failing{bytes.NewReader(signed(t, bundle, list, alice)), n},
			policy.ToUse); !errors.Is(err, errDisk) {
			t.Errorf("bundle, %d: %v", n, err)
		}
		if _, err := x.Examine(step, &failing{bytes.NewReader(rotation(t, alice, bob, eve)), n},
			policy.ToUse); !errors.Is(err, errDisk) {
			t.Errorf("rotation, %d: %v", n, err)
		}
	}
	for _, v := range []policy.Voucher{policy.ByKeys, policy.Dev} {
		s := item("tool:acme/t")
		s.Voucher = v
		if _, err := x.Examine(s, unreadable{bytes.NewReader(nil)}, policy.ToUse); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v: %v", v, err)
		}
	}
	if _, err := (admission.Subject{Name: "policy:x"}).Identify(unreadable{bytes.NewReader(nil)}, cas.Digest{},
		noon); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}
