// Package attest makes and verifies signed statements about bytes.
//
// How a statement goes through here: Statement.Append writes it, NewEnvelope wraps it, and Envelope.Sign and Append
// sign and write the envelope. VerifyStatement reads an envelope (ParseEnvelope), verifies its signatures
// (Envelope.Verify), reads the statement (ParseStatement), and compares its type and its subjects (About).
//
// Statements, such as how something was built, are in-toto Statements v1 in DSSE envelopes, so that other programs
// can read them too. We write both as JCS (package jcs), name keys by their fingerprint, and sort signatures by it:
//
//	{"payload":"eyJf…","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"1eed29…","sig":"POgE9P…"}]}
//
// We read any JSON with one meaning, at most 32 MiB and 16 signatures. It must have no members that the two formats
// don't define, except in the predicate. Callers verify statements with VerifyStatement: it takes the keys, how
// many of them must have signed, and the expected subject, so that no caller can forget one of these.
package attest
