package attest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// MaxEnvelope is the most bytes of an envelope.
const MaxEnvelope = 32 << 20

// invalid returns the error about bytes that are not an envelope, or not a statement.
func invalid(what string, err error) error {
	return fault.New(fault.Parsing, "%s: %v", what, err).From(err)
}

// printable reports whether s is 1 to most characters of ASCII, none of them a control or a space.
func printable(s string, most int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func badEnvelope(format string, args ...any) error {
	return invalid("envelope", fmt.Errorf(format, args...))
}

// An Envelope is a DSSE envelope: a payload of a type, and signatures over both. The zero Envelope is empty.
type Envelope struct {
	payloadType string
	payload     []byte
	signatures  []envelopeSignature
}

type envelopeSignature struct {
	keyID string // the signer's fingerprint; "" or another text if another program signed
	sig   [64]byte
}

// NewEnvelope returns an envelope without signatures. It keeps the payload.
func NewEnvelope(payloadType string, payload []byte) (*Envelope, error) {
	if !printable(payloadType, 200) {
		return nil, badEnvelope("%+q is not a payload type", payloadType)
	}
	if int64(len(payload)) > MaxEnvelope/4*3-4096 {
		return nil, badEnvelope("payload of %d bytes", len(payload))
	}
	return &Envelope{payloadType: payloadType, payload: payload}, nil
}

// Sign adds the signature of each key. It replaces an earlier signature of the key.
func (e *Envelope) Sign(keys ...key.Private) error {
	text := e.text()
	for _, k := range keys {
		if k.IsZero() {
			return badEnvelope("no key to sign with")
		}
		s := envelopeSignature{k.Public().Fingerprint().String(), k.Sign(text)}
		e.signatures = slices.DeleteFunc(e.signatures, func(o envelopeSignature) bool { return o.keyID == s.keyID })
		if e.signatures = append(e.signatures, s); len(e.signatures) > sign.MaxLines {
			return badEnvelope("more than %d signatures", sign.MaxLines)
		}
	}
	slices.SortStableFunc(e.signatures, func(a, b envelopeSignature) int {
		return slices.Compare([]byte(a.keyID), []byte(b.keyID))
	})
	return nil
}

// Append appends the envelope in its canonical form, JCS.
func (e *Envelope) Append(dst []byte) ([]byte, error) {
	sigs := []any{}
	for _, s := range e.signatures {
		m := map[string]any{"sig": base64.StdEncoding.EncodeToString(s.sig[:])}
		if s.keyID != "" {
			m["keyid"] = s.keyID
		}
		sigs = append(sigs, m)
	}
	n := base64.StdEncoding.EncodedLen(len(e.payload)) + 2
	payload := append(base64.StdEncoding.AppendEncode(append(make([]byte, 0, n), '"'), e.payload), '"')
	return jcs.Append(slices.Grow(dst, n+256*(1+len(sigs))), map[string]any{
		"payload":     jcs.Text(payload),
		"payloadType": e.payloadType,
		"signatures":  sigs,
	})
}

// ParseEnvelope reads an envelope. It need not be canonical, but must have only one meaning: JSON that package jcs
// accepts, only members of DSSE, and padded base64 of the standard alphabet with zeros in its unused bits.
func ParseEnvelope(b []byte) (*Envelope, error) {
	if len(b) > MaxEnvelope {
		return nil, badEnvelope("larger than %d bytes", MaxEnvelope)
	}
	v, err := jcs.Parse(b)
	if err != nil {
		return nil, invalid("envelope", err)
	}
	e, err := parseEnvelope(v)
	if err != nil {
		return nil, invalid("envelope", err)
	}
	return e, nil
}

func parseEnvelope(v any) (*Envelope, error) {
	fields, err := object(v, "payload", "payloadType", "signatures")
	if err != nil {
		return nil, err
	}
	envelope := &Envelope{}
	text, ok := fields["payload"].(string)
	if envelope.payload, err = decodeBase64(text); err != nil || !ok {
		return nil, errors.New(`"payload" is not base64`)
	}
	envelope.payloadType, _ = fields["payloadType"].(string)
	if !printable(envelope.payloadType, 200) {
		return nil, errors.New(`"payloadType" is not a type`)
	}
	list, _ := fields["signatures"].([]any)
	if len(list) == 0 || len(list) > sign.MaxLines {
		return nil, fmt.Errorf("%d signatures: there must be 1 to %d", len(list), sign.MaxLines)
	}
	seen := map[string]bool{}
	for _, v := range list {
		object, err := object(v, "keyid", "sig")
		if err != nil {
			return nil, err
		}
		id, ok := optionalString(object, "keyid")
		if !ok || len(id) > 1000 {
			return nil, errors.New(`"keyid" is not a name`)
		}
		if id != "" && seen[id] {
			return nil, fmt.Errorf("two signatures of the key %+q", id)
		}
		seen[id] = true
		text, _ := object["sig"].(string)
		s, err := decodeSignature(id, text)
		if err != nil {
			return nil, err
		}
		envelope.signatures = append(envelope.signatures, s)
	}
	return envelope, nil
}

// object returns the members of a JSON object, which may have only these names.
func object(v any, names ...string) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected an object with %q", names)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown member %+q: there are %q", name, names)
		}
	}
	return m, nil
}

// optionalString returns a member that is a string, or "" for an absent one.
func optionalString(m map[string]any, name string) (string, bool) {
	v, there := m[name]
	s, ok := v.(string)
	return s, ok || !there
}

// decodeBase64 accepts only one spelling of each sequence of bytes.
func decodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	// Strict doesn't refuse line breaks, which the decoder skips.
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(s) {
		return nil, errors.New("not base64")
	}
	return b, nil
}

func decodeSignature(id, text string) (envelopeSignature, error) {
	s := envelopeSignature{keyID: id}
	b, err := decodeBase64(text)
	if err != nil || len(b) != len(s.sig) {
		return s, errors.New(`"sig" is not a signature: expected 64 bytes in base64`)
	}
	copy(s.sig[:], b)
	return s, nil
}

// Unverified returns the envelope's content without verifying it, for display only.
func (e *Envelope) Unverified() (payloadType string, payload []byte) { return e.payloadType, e.payload }

// Verify returns the envelope's content, and those of keys that signed it, in the order of keys: at least threshold
// of them, each counted once. It ignores a signature that names another key, and tries one that names no key with
// each. A signature that isn't by the key that it names is a *sign.SignatureInvalidError, and too few signatures
// are BELOW_THRESHOLD. The threshold must be from 1 to the number of keys.
func (e *Envelope) Verify(keys []key.Public, threshold int) (payloadType string, payload []byte, signers []key.Public,
	err error) {
	byID := map[string]key.Public{}
	for _, k := range keys {
		if k.IsZero() {
			return "", nil, nil, fault.New(fault.Validation, "envelope: no key to verify with")
		}
		byID[k.Fingerprint().String()] = k
	}
	if threshold < 1 || threshold > len(byID) {
		return "", nil, nil, fault.New(fault.Validation, "envelope: a threshold of %d with %d keys", threshold,
			len(byID))
	}
	good := map[string]bool{}
	text := e.text()
	for _, s := range e.signatures {
		if k, known := byID[s.keyID]; known {
			if !k.Verify(text, s.sig[:]) {
				return "", nil, nil, &sign.SignatureInvalidError{Key: k.Fingerprint()}
			}
			good[s.keyID] = true
		} else if s.keyID == "" {
			// It counts for the first key that fits, and no other.
			if i := slices.IndexFunc(keys, func(k key.Public) bool { return k.Verify(text, s.sig[:]) }); i >= 0 {
				good[keys[i].Fingerprint().String()] = true
			}
		}
	}
	if len(good) < threshold {
		return "", nil, nil, fault.New(fault.BelowThreshold, "signed by %d of the keys, required %d", len(good),
			threshold)
	}
	for _, k := range keys {
		if id := k.Fingerprint().String(); good[id] {
			good[id] = false
			signers = append(signers, k)
		}
	}
	return e.payloadType, e.payload, signers, nil
}

// text returns the bytes of an envelope that a key signs, which DSSE calls the pre-authentication encoding.
func (e *Envelope) text() []byte {
	head := fmt.Sprintf("DSSEv1 %d %s %d ", len(e.payloadType), e.payloadType, len(e.payload))
	return append([]byte(head), e.payload...)
}
