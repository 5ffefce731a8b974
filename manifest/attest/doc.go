// Package attest answers: who says this about these bytes?
//
// Statements, such as how something was built, are in-toto Statements v1 in DSSE envelopes, for other programs to
// read too. We write both as JCS (package jcs), name keys by their fingerprint, and sort signatures by it:
//
//	{"payload":"eyJf…","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"1eed29…","sig":"POgE9P…"}]}
//
// We read any JSON with one meaning, without members that the two formats don't define (but in the predicate), at
// most 32 MiB and 16 signatures. VerifyStatement is the way to ask what a statement is worth: it takes the keys,
// how many must have signed, and what the statement is to be about, so that none of these can be forgotten.
package attest
