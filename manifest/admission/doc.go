// Package admission examines a file: may it be used under this name, by the policies in force?
//
// How a file goes through here: Trust.Examine reads it once (sign.Read finds its signature lines and hashes it),
// verifies the lines with the keys of both policies (verify), and asks package policy, which decides separately for
// root and project (Decide). It reads an admitted document again, to compare its name, expiry and digest with the
// Subject (Identify, identifyV1); a rotation is decided by the rule that it changes (rotation). The result is an
// Exam, the evidence together with the decision. Examine neither prints nor remembers, and two calls with the same
// bytes and the same Trust have the same result.
//
//	t := admission.Trust{Root: root, Project: project, Now: now}
//	e, err := t.Examine(admission.Subject{Name: "tool:acme/fetch", Style: sign.StyleOf(path)}, file, policy.ToUse)
//	switch {
//	case err != nil:               // the file itself is wrong: changed, forged, another document, unreadable
//	case !e.Decision.Allowed:      // the file may be intact, but these policies don't allow its use
//	}
//
// Both must have passed before a byte counts. The bytes that count have the digest e.Signed.Raw: a second reader of
// the file compares its digest with that.
//
// # Names and domains
//
// A name is a kind, a colon and an id. The kind decides the domain of the signatures, so that a signature for one
// purpose counts for no other:
//
//	bundle       rye/v2/manifest       bundle:ID@VERSION
//	policy       rye/v2/policy         policy:NAME
//	revocations  rye/v2/revocations    revocations:NAME
//	rotation     rye/v2/rotation       rotation:RULE
//	index        rye/v2/index          index:NAME
//	token        rye/v2/token          token:ID
//	transcript   rye/v2/transcript     transcript:THREAD
//	audit        rye/v2/audit          audit:SEGMENT
//	advisories   rye/v2/advisories     advisories:REGISTRY
//	any other    rye/v2/item           KIND:ID
//
// All except the last are documents. Their lines are in the style Hash, regardless of the file's name, and the id
// of a document is the digest of its bytes without them.
//
// # Documents
//
// A document contains its name. If its signatures are enough, Identify reads it: it must be well-formed, have the
// requested name (else a *NameError), not be expired (an *ExpiredError) and be the bytes whose signatures were
// verified (else ErrChanged). Before that only its signature lines are read, so that only trusted keys can reach the
// document's parser. A policy has no name inside; other packages read indexes, tokens, transcripts, segments of an
// audit and lists of advisories.
//
// A line of the first format covers neither a name nor a purpose. A manifest with such a line is used as a bundle only
// if the caller can read manifests of that format (Subject.V1) and the manifest has the bundle's name; otherwise it is
// refused, because it could be any file that its signer ever signed.
//
// A rotation needs the same signatures as any document, but another rule decides: not a rule for its name, but the
// rule that it changes, by the threshold of that rule's present keys and by the new key. Allowed then means that the
// root policy would apply the step now. The step applies only after an edit of the policy.
//
// # Without signatures
//
// If the binary or the user of one call vouches for an item (policy.Builtin, policy.Dev), signature lines are not
// required and broken ones are no error. Revocation applies all the same.
package admission
