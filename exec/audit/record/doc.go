// Package record defines the record of a call: its description before it begins, and its outcome.
//
// Both are JSON objects in canonical form (JCS), in the lines of the audit log and in receipts:
//
//	{"chain":[{"digest":"blake3:…","ref":"tool:rye/python","signers":["builtin"]}],"deadline":"2026-11-20T12:01:00.000Z",
//	 "digest":"blake3:…","grants":"blake3:…","limits":{"memory":1073741824,"wall_ms":60000},"lock":"blake3:…","params":"blake3:…",
//	 "parent":"c-1","policy":["blake3:…"],"principal":"ann","ref":"tool:demo/hi","risk":"read","sandbox":"landlock+seccomp",
//	 "set":"blake3:…","signers":["6c31…"],"tenant":"acme","toolchain":[{"name":"python3","path":"/usr/bin/python3","version":"3.12.3"}],
//	 "tree":"blake3:…"}
//
//	{"code":"TIMEOUT","duration_ns":1500000000,"exit":-1,"result":"blake3:…","sandbox":"landlock+seccomp","signal":"killed",
//	 "status":"timeout","usage":{"cpu_ms":12}}
//
// A step of a request for an approval is a third object, in the log alone:
//
//	{"by":"ann","params":"blake3:…","principal":"ann","ref":"tool:acme/pay","request":"3f2a9c1e-…","state":"approved","through":"rye approve"}
//
// A question of an agent to a registry is a fourth, in the log alone, with the words as they are sent:
//
//	{"principal":"ann","registry":"https://registry.example","thread":"acme/find-1","verb":"search","words":"resize images"}
//
// Empty members (an empty text, a zero, a zero digest, an empty list) are left out. A call must have ref and digest;
// an outcome, status; a step, ref, request and state; a question, registry, verb and words. Text is one printable line
// of at most 1,000 bytes; ids of calls, and the names of limits and usage, are 1 to 128 letters, digits, ".", "_" and
// "-"; lists have at most 256 entries; numbers lie between 0 and 2^53. Check refuses everything else, and the parsers
// accept exactly the bytes that Append writes.
//
// "risk_derived" is why a call has its risk if the tool declares none, such as "it may use the network".
//
// "bundle" and "registry" are the version of the bundle that an item is from, as "acme/base@1.0.0", and the address of
// the registry that it came from. Items that no registry published have neither.
//
// "packages" is the digest of a sorted list with a line for each package of a third-party registry: its digest, a
// space, and its name in the lock. The item's programs that the lock doesn't pin stand in toolchain without "pinned".
//
// # Lines
//
// A line of the audit log's journals is one JSON object, as JCS:
//
//	{"at":"2026-11-20T12:00:00.123Z","body":{"a":"b"},"call":"c-1","kind":"begin","line":12,"prev":"blake3:3ae7…","sum":"blake3:fc82…"}
//
// with the time in milliseconds, what it says, what it is about (call, which may be missing), a kind, its number from
// 1, the sum of the line before (of the first: 64 zeros), and its own: the BLAKE3 of the line as it is without this
// member. Kinds and calls are 1 to 128 letters, digits, ".", "_" and "-". LF ends a line, which has at most 64 KiB
// with it. So the chain is followed without parsing JSON: everything but the body has its place from one of the two
// ends, and one spelling. Scan refuses any other; whether the body is JSON is for those who read it.
//
// Package cas/journal appends the lines, and says what of an incomplete write is passed over. Everything else that
// isn't a line which follows is a *Problem.
//
// # How a record goes through here
//
// Call.Append, End.Append, Approval.Append and Query.Append write the members of a body in one order (members, write)
// into a Line, which package cas/journal appends. Reader.Next reads the lines again: Line.Scan takes one apart, and
// the Reader compares its number and its chain with the line before. ParseCall, ParseEnd, ParseApproval and ParseQuery
// read the body through the same members, and Check refuses what doesn't keep to the limits.
package record
