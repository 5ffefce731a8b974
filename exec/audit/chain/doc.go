// Package chain answers: which line follows, and is it as it was written?
//
// A line of the audit log's journals is one JSON object, as JCS:
//
//	{"at":"2026-11-20T12:00:00.123Z","body":{"a":"b"},"call":"c-1","kind":"begin","line":12,"prev":"blake3:3ae7…","sum":"blake3:fc82…"}
//
// with the time in milliseconds, what it says, what it is about (call, which may be missing), a kind, its number from 1,
// the sum of the line before (of the first: 64 zeros), and its own: the BLAKE3 of the line as it is without this member.
// Kinds and calls are 1 to 128 letters, digits, ".", "_" and "-". LF ends a line, which has at most 64 KiB with it. So
// the chain is followed without parsing JSON: everything but the body has its place from one of the two ends, and one
// spelling. Scan refuses any other; whether the body is JSON is for those who read it.
//
// Package cas/journal appends the lines, and says what of an incomplete write is passed over. Everything else that isn't a
// line which follows is a *Problem.
package chain
