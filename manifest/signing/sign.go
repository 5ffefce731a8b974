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
func (k *Signer) Sign(s Subject, raw []byte) (*Signed, error) {
	if len(raw) > MaxSigned {
		return nil, fault.New(fault.Limit, "%q has more than %d MiB", s.File, MaxSigned>>20)
	}
	if !k.V1 {
		m, err := k.signV2(s, raw)
		if err != nil {
			return nil, err
		}
		return k.signed(s, m.Bytes, raw, m.Before, m.After)
	}
	out, err := k.signV1(s, raw)
	if err != nil {
		return nil, err
	}
	before, _ := sign.ReadBytes(raw, s.Signing()) // damaged lines are replaced
	after, err := sign.ReadBytes(out, s.Signing())
	if err != nil {
		return nil, err
	}
	return k.signed(s, out, raw, before, after)
}

func (k *Signer) signV2(s Subject, raw []byte) (m *sign.Made, err error) {
	var known sign.Keys
	if k.Trust != nil {
		known = k.Trust.Exam().Find
	}
	if s.Known == nil {
		s.Known = &admission.Known{}
		s.Known.Signed, s.Known.Err = sign.ReadBytes(raw, s.Signing())
	}
	switch before := s.Known.Signed; {
	case s.Known.Err != nil:
		m, err = sign.Make(raw, s.Signing(), s.Claim(), k.Key, k.At, known)
	case before.Format == sign.V1 && k.Upgrade:
		body, err := k.upgraded(s, raw)
		if err != nil {
			return nil, err
		}
		if m, err = sign.Make(body, s.Signing(), s.Claim(), k.Key, k.At, known); err != nil {
			return nil, err
		}
		m.Before = before
	default:
		m, err = before.Make(raw, s.Claim(), k.Key, k.At, known)
	}
	if errors.Is(err, sign.ErrV1) {
		err = fault.New(fault.Validation, "%q is signed in the first format (v1)",
			s.File).From(err).Try("rye sign --upgrade " + s.typed())
	}
	return m, err
}

// upgraded returns a file without its v1 signature, if the policy accepts that one.
func (k *Signer) upgraded(s Subject, raw []byte) ([]byte, error) {
	if k.Trust == nil {
		return nil, fault.New(fault.Policy, "no policy accepts signatures of the first format (v1)")
	}
	e, err := examine(k.Trust, s, bytes.NewReader(raw), policy.ToShow)
	if err != nil {
		return nil, err
	}
	if f := e.refusal(k.Trust); f != nil {
		if e.Decision.Code != policy.FormatNotAccepted {
			f.Hint = []string{"rye trust check " + fault.Quote(s.Name)}
		}
		return nil, f
	}
	return sign.StripV1(raw, s.Signing()), nil
}

// signV1 signs in the first format, unless this key has already.
func (k *Signer) signV1(s Subject, raw []byte) ([]byte, error) {
	before, err := sign.ReadBytes(raw, s.Signing())
	switch {
	case err == nil && before.Format == sign.V2:
		return nil, fault.New(fault.Validation,
			"%q is signed in format v2: a signature of the first format (v1) can't be added", s.File)
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
	return sign.SignV1(raw, s.Signing(), k.Key, k.At)
}

// signed checks the signed file and describes it.
func (k *Signer) signed(s Subject, out, raw []byte, before, after sign.Signed) (*Signed, error) {
	if s.IsDocument() && !k.V1 {
		// Sign a document only under the name that it contains.
		text := out
		if cas.Sum(raw) == after.Stripped {
			text = raw // so that an error counts the lines of the unsigned file
		}
		if _, err := s.Identify(bytes.NewReader(text), after.Stripped, k.Now); err != nil {
			return nil, err
		}
	}
	l := &Signed{Name: s.Name, File: s.File, Key: k.Key.Public().Fingerprint().String(), Format: after.Format.String(),
		Bytes: out,
		Raw:   after.Raw.String(), Stripped: after.Stripped.String(), Lines: max(len(after.Lines), 1),
		Changed: !bytes.Equal(out, raw)}
	if l.Changed {
		l.Replaced = k.replaced(before, after)
	}
	if !s.Tree.IsZero() {
		l.Tree = s.Tree.String()
	}
	if k.Trust == nil {
		return l, nil
	}
	s.Known = &admission.Known{Signed: after}
	e, err := examine(k.Trust, s, bytes.NewReader(out), policy.ToUse)
	if err != nil {
		return l, nil // verifying it reports the error
	}
	l.Allowed = e.Decision.Allowed
	// Policies admit documents that revoke by another section than "names".
	if d := admission.Domain(s.Name); d != sign.Revocations && d != sign.Policy {
		l.Refusal = e.refusal(k.Trust)
	}
	return l, nil
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
func (k *Signer) SignFile(s Subject, file *os.File, dryRun bool) (*Signed, error) {
	switch admission.Domain(s.Name) {
	case sign.Token, sign.Transcript, sign.Audit:
		return nil, fault.New(fault.Validation, "a %s is signed by what makes it, never by hand", s.Kind())
	}
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, MaxSigned+1))
	if err != nil {
		return nil, err
	}
	l, err := k.Sign(s, raw)
	if err != nil {
		return nil, s.Broken(err)
	}
	if !l.Changed || dryRun {
		return l, nil
	}
	now, err := os.Lstat(s.File)
	if err == nil && (!os.SameFile(fi, now) || fi.Size() != now.Size() || !fi.ModTime().Equal(now.ModTime())) {
		err = sign.ErrChanged
	}
	if err != nil {
		return nil, s.Broken(err)
	}
	d, err := osfile.OpenDir(filepath.Dir(s.File), 0)
	if err != nil {
		return nil, s.Broken(err)
	}
	defer d.Close()
	if err := d.Write(filepath.Base(s.File), fi.Mode().Perm(), false, l.Bytes); err != nil {
		return nil, s.Broken(err)
	}
	return l, nil
}
