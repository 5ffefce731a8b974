// Package admission answers: may this file be used under this name, by the policies in force?
//
// It is where the rooms of manifest meet. A file is read once: package sign finds its signature lines and hashes
// it, the lines are verified with the keys of both policies, and package policy decides, root and project each
// alone. What comes out is an Exam, the evidence together with the decision. Examine reads and decides; it
// neither prints nor remembers, and two calls with the same bytes and the same Trust say the same.
//
//	t := exam.Trust{Root: root, Project: project, Now: now}
//	e, err := t.Examine(exam.Subject{Name: "tool:acme/fetch", Style: sign.StyleOf(path)}, file, policy.ToUse)
//	switch {
//	case err != nil:               // the file itself is wrong: changed, forged, another document, unreadable
//	case !e.Decision.Allowed:      // it may be as it should, and these policies don't let it be used
//	}
//
// Both must have passed before a byte counts, and the bytes that count are those with the digest e.Signed.Raw:
// a second reader of the file compares it with that.
//
// # Names and domains
//
// A name is a kind, a colon and an id. The kind decides the domain that signatures are made in, so that what was
// signed for one purpose counts for no other:
//
//	bundle       rye/v2/manifest       bundle:ID@VERSION
//	policy       rye/v2/policy         policy:NAME
//	revocations  rye/v2/revocations    revocations:NAME
//	rotation     rye/v2/rotation       rotation:RULE
//	index        rye/v2/index          index:NAME
//	token        rye/v2/token          token:ID
//	transcript   rye/v2/transcript     transcript:THREAD
//	audit        rye/v2/audit          audit:SEGMENT
//	any other    rye/v2/item           KIND:ID
//
// All but the last are documents. Their lines are in the style Hash whatever the file is called, and the id of a
// document is the digest of its bytes without them.
//
// # Documents
//
// A document says itself what it is. Once its signatures are enough, it is read and must be well-formed, have the
// name it was asked for by (else a *NameError), not be past its end (an *ExpiredError) and be the bytes whose
// signatures were looked at (else ErrChanged). Before that nothing in it is looked at but its lines, so that only
// those who are trusted get to speak to its reader. A policy has no name inside; indexes, tokens, transcripts
// and segments of an audit are read in the rooms that have them.
//
// A line of the first format binds neither a name nor a purpose. What it stands in is used as a bundle only if
// the caller can read manifests of that format (Subject.V1) and it says that it is this bundle; else it
// is refused, since it could be any file that its signer ever signed.
//
// A rotation is no exception to who may sign, but to who says it: no rule of names decides, but the rule that it
// is about, by the threshold of that rule's keys as they are and by the new key. Allowed then means that the root
// policy would take the step now. It has taken it when it was edited so, not before.
//
// # Without signatures
//
// Where the binary itself vouches for an item, or its user for one call (policy.Builtin, policy.Dev), signature
// lines are not asked for and broken ones are no error. Revocation holds all the same.
package admission
