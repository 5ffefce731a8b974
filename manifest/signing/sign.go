package signing

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// A Signer signs files. It is safe for concurrent use.
type Signer struct {
	Key     key.Private
	Trust   *trust.Trust // nil without a policy, which signing doesn't need
	V1      bool         // sign in the first format
	Upgrade bool         // replace a v1 signature that the policy accepts
	At      time.Time    // the time in the signature
	Now     time.Time    // the time that expiry counts against
}

// A Signed is a file after it was signed.
type Signed struct {
	Name     string `json:"name"`
	File     string `json:"file"`
	Key      string `json:"key"` // its fingerprint
	Format   string `json:"format"`
	Raw      string `json:"raw"`      // of the file as it is now, or would be
	Stripped string `json:"stripped"` // without signature lines
	Tree     string `json:"tree,omitempty"`
	Beside   int    `json:"beside"` // the number of files in the tree
	Lines    int    `json:"lines"`  // the number of signatures in the file now
	Changed  bool   `json:"changed"`
	Allowed  bool   `json:"allowed"`  // the policy lets the file be used under this name now
	Replaced int    `json:"replaced"` // signatures that were removed because they were no longer valid

	Bytes   []byte       `json:"-"` // the signed file
	Refusal *fault.Error `json:"-"` // why the policy still refuses it; nil if it doesn't
}

// MaxSigned is the most bytes of a file to sign, because the whole file is in memory.
const MaxSigned = 32 << 20

// Sign returns a file with the key's signature. It writes nothing.
func (k *Signer) Sign(subject Subject, raw []byte) (*Signed, error) {
	if len(raw) > MaxSigned {
		return nil, fault.New(fault.Limit, "%q has more than %d MiB", subject.File, MaxSigned>>20)
	}
	if !k.V1 {
		m, err := k.signV2(subject, raw)
		if err != nil {
			return nil, err
		}
		return k.signed(subject, m.Bytes, raw, m.Before, m.After)
	}
	out, err := k.signV1(subject, raw)
	if err != nil {
		return nil, err
	}
	before, _ := sign.ReadBytes(raw, subject.Signing()) // damaged lines are replaced
	after, err := sign.ReadBytes(out, subject.Signing())
	if err != nil {
		return nil, err
	}
	return k.signed(subject, out, raw, before, after)
}

func (k *Signer) signV2(subject Subject, raw []byte) (made *sign.Made, err error) {
	var known sign.Keys
	if k.Trust != nil {
		known = k.Trust.Exam().Find
	}
	if subject.Known == nil {
		subject.Known = &admission.Known{}
		subject.Known.Signed, subject.Known.Err = sign.ReadBytes(raw, subject.Signing())
	}
	switch before := subject.Known.Signed; {
	case subject.Known.Err != nil:
		made, err = sign.Make(raw, subject.Signing(), subject.Claim(), k.Key, k.At, known)
	case before.Format == sign.V1 && k.Upgrade:
		body, err := k.upgraded(subject, raw)
		if err != nil {
			return nil, err
		}
		if made, err = sign.Make(body, subject.Signing(), subject.Claim(), k.Key, k.At, known); err != nil {
			return nil, err
		}
		made.Before = before
	default:
		made, err = before.Make(raw, subject.Claim(), k.Key, k.At, known)
	}
	if errors.Is(err, sign.ErrV1) {
		err = fault.New(fault.Validation, "%q is signed in the first format (v1)",
			subject.File).From(err).Try("rye sign --upgrade " + subject.typed())
	}
	return made, err
}

// upgraded returns a file without its v1 signature, if the policy accepts that one.
func (k *Signer) upgraded(subject Subject, raw []byte) ([]byte, error) {
	if k.Trust == nil {
		return nil, fault.New(fault.Policy, "no policy accepts signatures of the first format (v1)")
	}
	e, err := examine(k.Trust, subject, bytes.NewReader(raw), policy.ToShow)
	if err != nil {
		return nil, err
	}
	if f := e.refusal(k.Trust); f != nil {
		if e.Decision.Code != policy.FormatNotAccepted {
			f.Hint = []string{"rye trust check " + fault.Quote(subject.Name)}
		}
		return nil, f
	}
	return sign.StripV1(raw, subject.Signing()), nil
}

// signV1 signs in the first format, unless this key has already.
func (k *Signer) signV1(subject Subject, raw []byte) ([]byte, error) {
	before, err := sign.ReadBytes(raw, subject.Signing())
	switch {
	case err == nil && before.Format == sign.V2:
		return nil, fault.New(fault.Validation,
			"%q is signed in format v2: a signature of the first format (v1) can't be added", subject.File)
	case err == nil && before.Format == sign.V1:
		own := func(id string) (own []key.Public) {
			if id == k.Key.Public().V1ID() {
				own = []key.Public{k.Key.Public()}
			}
			return own
		}
		if _, err := sign.CheckV1(before, own); err == nil {
			return raw, nil
		}
	}
	return sign.SignV1(raw, subject.Signing(), k.Key, k.At)
}

// signed checks the signed file and describes it.
func (k *Signer) signed(subject Subject, out, raw []byte, before, after sign.Signed) (*Signed, error) {
	if subject.IsDocument() && !k.V1 {
		// Sign a document only under the name that it contains.
		text := out
		if cas.Sum(raw) == after.Stripped {
			text = raw // so that an error counts the lines of the unsigned file
		}
		if _, err := subject.Identify(bytes.NewReader(text), after.Stripped, k.Now); err != nil {
			return nil, err
		}
	}
	signed := &Signed{Name: subject.Name, File: subject.File, Key: k.Key.Public().Fingerprint().String(),
		Format: after.Format.String(),
		Bytes:  out,
		Raw:    after.Raw.String(), Stripped: after.Stripped.String(), Lines: max(len(after.Lines), 1),
		Changed: !bytes.Equal(out, raw)}
	if signed.Changed {
		signed.Replaced = k.replaced(before, after)
	}
	if !subject.Tree.IsZero() {
		signed.Tree = subject.Tree.String()
	}
	if k.Trust == nil {
		return signed, nil
	}
	subject.Known = &admission.Known{Signed: after}
	e, err := examine(k.Trust, subject, bytes.NewReader(out), policy.ToUse)
	if err != nil {
		return signed, nil // verifying it reports the error
	}
	signed.Allowed = e.Decision.Allowed
	// Policies admit documents that revoke by another section than "names".
	if d := admission.Domain(subject.Name); d != sign.Revocations && d != sign.Policy {
		signed.Refusal = e.refusal(k.Trust)
	}
	return signed, nil
}

// replaced counts the signatures that signing removed. A v1 signature that was upgraded may have been valid.
func (k *Signer) replaced(before, after sign.Signed) (n int) {
	for _, l := range before.Lines {
		if !slices.Contains(after.Lines, l) {
			n++
		}
	}
	if before.V1 != nil && !k.Upgrade {
		n++
	}
	return n
}

// SignFile signs an open file and writes it in its place, unless dryRun. A file that was replaced meanwhile is kept.
func (k *Signer) SignFile(subject Subject, file *os.File, dryRun bool) (*Signed, error) {
	switch admission.Domain(subject.Name) {
	case sign.Token, sign.Transcript, sign.Audit:
		return nil, fault.New(fault.Validation, "a %s is signed by what makes it, never by hand", subject.Kind())
	}
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, MaxSigned+1))
	if err != nil {
		return nil, err
	}
	signed, err := k.Sign(subject, raw)
	if err != nil {
		return nil, subject.Broken(err)
	}
	if !signed.Changed || dryRun {
		return signed, nil
	}
	now, err := os.Lstat(subject.File)
	if err == nil && (!os.SameFile(fi, now) || fi.Size() != now.Size() || !fi.ModTime().Equal(now.ModTime())) {
		err = sign.ErrChanged
	}
	if err != nil {
		return nil, subject.Broken(err)
	}
	d, err := osfile.OpenDir(filepath.Dir(subject.File), 0)
	if err != nil {
		return nil, subject.Broken(err)
	}
	defer d.Close()
	if err := d.Write(filepath.Base(subject.File), fi.Mode().Perm(), false, signed.Bytes); err != nil {
		return nil, subject.Broken(err)
	}
	return signed, nil
}
