package cosign

import (
	"slices"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// A Statement is a provenance envelope next to the bundle, with the key's signature.
type Statement struct {
	Envelope   []byte
	Signatures int  // by keys of the policy and by the key
	Changed    bool // the key had not signed it
}

// SignStatement adds the key's signature to a statement about the checked bundle. A key of the policy must have signed
// it already: what no known person states isn't confirmed.
func (c *Change) SignStatement(envelope []byte) (*Statement, error) {
	signers, err := bundle.StatementSigners(c.Verify.Trust, envelope, c.Bundle.Bundle.ID)
	if err != nil {
		return nil, err
	}
	statement := &Statement{Envelope: envelope, Signatures: len(signers)}
	if slices.ContainsFunc(signers, func(k key.Public) bool {
		return k.Fingerprint() == c.Key.Public().Fingerprint()
	}) {
		return statement, nil
	}
	e, err := attest.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	if err := e.Sign(c.Key); err != nil {
		return nil, err
	}
	statement.Envelope, err = e.Append(nil)
	statement.Signatures, statement.Changed = statement.Signatures+1, true
	return statement, err
}
