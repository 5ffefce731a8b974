package peers

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// A dsseKey is a key of ours as the library of those who define DSSE wants it.
type dsseKey struct{ key.Private }

func (k dsseKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	sig := k.Private.Sign(data)
	return sig[:], nil
}

func (k dsseKey) Verify(_ context.Context, data, sig []byte) error {
	if !k.Private.Public().Verify(data, sig) {
		return errors.New("not this key's signature")
	}
	return nil
}

func (k dsseKey) KeyID() (string, error)   { return k.Private.Public().Fingerprint().String(), nil }
func (k dsseKey) Public() crypto.PublicKey { return k.Private.Public() }

// Envelopes that one side writes the other one reads, and counts the same signatures in.
func TestDSSE(t *testing.T) {
	ctx := t.Context()
	var keys []dsseKey
	for range 3 {
		k, err := key.Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, dsseKey{k})
	}
	signer, err := dsse.NewMultiEnvelopeSigner(2, keys[0], keys[1])
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := dsse.NewMultiEnvelopeVerifier(2, keys[0], keys[1])
	if err != nil {
		t.Fatal(err)
	}
	publics := []key.Public{keys[0].Private.Public(), keys[1].Private.Public()}
	for _, payload := range []string{"", "p", "{\"a\": \"\u00fc\\n\"}", string(make([]byte, 1000))} {
		theirs, err := signer.SignPayload(ctx, "http://example.com/HelloWorld", []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := attest.ParseEnvelope(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if typ, got, by, err := ours.Verify(publics, 2); err != nil || typ != theirs.PayloadType ||
			string(got) != payload || len(by) != 2 {
			t.Errorf("%s: %q, %q, by %v, %v", text, typ, got, by, err)
		}
		ours, err = attest.NewEnvelope("application/x+json", []byte(payload))
		if err == nil {
			err = ours.Sign(keys[2].Private, keys[1].Private, keys[0].Private)
		}
		if err == nil {
			text, err = ours.Append(nil)
		}
		var read dsse.Envelope
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil {
			t.Fatal(err)
		}
		if by, err := verifier.Verify(ctx, &read); err != nil || len(by) != 2 {
			t.Errorf("%s: by %v, %v", text, by, err)
		}
		read.PayloadType += "x"
		if _, err := verifier.Verify(ctx, &read); err == nil {
			t.Errorf("%s of another type passes", text)
		}
	}
}
