package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// TypeEnvelope is the media type of provenance, which is in a DSSE envelope.
const TypeEnvelope = "application/vnd.dsse.envelope.v1+json"

// ProvenanceType is the predicate of statements about how a bundle was made.
const ProvenanceType = "https://slsa.dev/provenance/v1"

// evidence checks the evidence that the manifest names, and the required evidence.
func (v *verification) evidence(ctx context.Context) error {
	why := map[string][]error{} // the errors of invalid evidence, by requirement
	for i := range v.look.bundle.Evidence {
		evidence := v.look.bundle.Evidence[i]
		data, err := v.proof(ctx, &evidence)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			f := damage(evidence.Digest, err)
			f.Path = evidence.Name
			v.fail(f)
			continue
		}
		attested := Attested{Evidence: evidence}
		if evidence.Type == TypeEnvelope {
			attested.Signers, err = v.provenance(data, v.look.bundle.Subject, true)
			if err != nil {
				why[Provenance] = append(why[Provenance], fmt.Errorf("%+q: %w", evidence.Name, err))
			}
		}
		if v.asksParts(&evidence) {
			err = aboutSubject(evidence.Type, data, v.look.bundle.Subject)
			if attested.parts = err == nil; err != nil {
				why[SBOM] = append(why[SBOM], fmt.Errorf("%+q: %w", evidence.Name, err))
			}
		}
		v.report.Evidence = append(v.report.Evidence, attested)
	}
	v.statements()
	for _, what := range v.options.Require {
		v.require(what, why[what])
	}
	return nil
}

// statements checks the statements next to the bundle, which name the manifest's id.
func (v *verification) statements() {
	for _, s := range v.options.Statements {
		signers, err := v.provenance(s.Envelope, v.look.bundle.ID, false)
		if err != nil {
			v.fail(&Failure{Check: CheckEvidence, Path: s.Name, Err: err})
			continue
		}
		e := manifest.Evidence{Name: s.Name, Digest: cas.Sum(s.Envelope), Size: int64(len(s.Envelope)),
			Type: TypeEnvelope}
		v.report.Evidence = append(v.report.Evidence, Attested{Evidence: e, Signers: signers, About: v.look.bundle.ID})
	}
}

func (v *verification) require(what string, why []error) {
	have := func(good func(Attested) bool) bool { return slices.ContainsFunc(v.report.Evidence, good) }
	switch what {
	case SBOM:
		if !have(func(a Attested) bool { return a.parts }) {
			v.fail(&Failure{Check: CheckEvidence, Expected: SBOM, Err: errors.Join(why...)})
		}
	case Provenance:
		if !have(func(a Attested) bool { return len(a.Signers) > 0 }) {
			v.fail(&Failure{Check: CheckEvidence, Expected: Provenance, Err: errors.Join(why...)})
		}
	default:
		v.fail(&Failure{Check: CheckEvidence, Expected: what, Err: errRequire})
	}
}

var errRequire = errors.New("unknown evidence: expected sbom or provenance")

// asksParts reports whether an SBOM must be parsed because one is required.
func (v *verification) asksParts(e *manifest.Evidence) bool {
	return isSBOM(e.Type) && e.Size <= manifest.MaxListBytes && slices.Contains(v.options.Require, SBOM)
}

// proof reads one file of evidence. It returns the bytes only of evidence that must be parsed.
func (v *verification) proof(ctx context.Context, e *manifest.Evidence) ([]byte, error) {
	object, err := v.look.getter.Get(ctx, cas.ID{Kind: cas.Blob, Digest: e.Digest})
	if err != nil {
		return nil, err
	}
	defer object.Close()
	if object.Size != e.Size {
		return nil, fmt.Errorf("has %d bytes, the manifest says %d", object.Size, e.Size)
	}
	if !v.asksParts(e) && (e.Type != TypeEnvelope || e.Size > attest.MaxEnvelope) {
		_, err := io.Copy(io.Discard, cas.Until(ctx, object))
		return nil, err
	}
	return io.ReadAll(object)
}

// provenance returns the signers of a statement about how this bundle was made. Keys that may sign the manifest must
// have signed it: as many of them as for the manifest, or one if the manifest itself names the statement. about is the
// subject that the statement must name.
func (v *verification) provenance(envelope []byte, about cas.Digest, named bool) ([]key.Fingerprint, error) {
	bundle := v.look.bundle
	signers, err := StatementSigners(v.trust, envelope, about)
	if err != nil {
		return nil, err
	}
	r := policy.Request{Name: bundle.Name, Purpose: policy.ToUse, Document: bundle.ID, Stripped: bundle.ID,
		Evidence: named}
	var ids []key.Fingerprint
	for _, k := range signers {
		ids = append(ids, k.Fingerprint())
		r.Signers = append(r.Signers, sign.Signer{Key: k, Format: sign.V2})
	}
	if d := v.trust.Decide(r); !d.Allowed {
		return nil, &NotAdmittedError{Name: bundle.Name, Decision: d}
	}
	return ids, nil
}

// StatementSigners returns the keys of the policies that have signed a statement about how a bundle was made. A
// statement about another subject is an error, and so is one that none of these keys signed.
func StatementSigners(t *admission.Trust, envelope []byte, about cas.Digest) ([]key.Public, error) {
	var keys []key.Public
	for _, k := range slices.Concat(keysOf(&t.Root), keysOf(t.Project)) {
		if !slices.ContainsFunc(keys, func(o key.Public) bool { return o.Fingerprint() == k.Public.Fingerprint() }) {
			keys = append(keys, k.Public)
		}
	}
	_, signers, err := attest.VerifyStatement(envelope, keys, 1, ProvenanceType, attest.DigestsOf(about))
	return signers, err
}

func keysOf(s *policy.Side) []policy.Key {
	if s == nil || s.Policy == nil {
		return nil
	}
	return s.Policy.Sections().Keys
}
