// Package journal answers: which line follows, and is it as it was written?
//
// A journal is a file to which lines are added, and nothing else is done. A line is one JSON object, as JCS:
//
//	{"at":"2026-11-20T12:00:00.123Z","body":{"a":"b"},"call":"c-1","kind":"begin","line":12,"prev":"blake3:3ae7…","sum":"blake3:fc82…"}
//
// with the time in milliseconds, what it says, what it is about (call, which may be missing), a kind, its number from 1,
// the sum of the line before (of the first: 64 zeros), and its own: the BLAKE3 of the line as it is without this member.
// Kinds and calls are 1 to 128 letters, digits, ".", "_" and "-". LF ends a line, which has at most 64 KiB with it. So
// whoever follows the chain needs no JSON: everything but the body has its place from one of the two ends, and one
// spelling. Scan refuses any other; whether the body is JSON is for those who read it.
//
// # Damage
//
// A process that dies while it writes leaves the beginning of a line without LF, and a machine that dies leaves NUL
// where nothing was written: 16 in a row are taken for that. Such an end is torn. A Reader ends there, and a writer
// overwrites it. Everything else that isn't a line which follows is a *Problem for a reader, and for a writer a
// *DamagedError: it doesn't continue what it doesn't understand, and a journal that was there and is gone isn't begun
// anew. Readers take no lock.
//
// # Writers
//
// A Shared is a journal for many processes. Lines are added under a lock on the file beside it with ".lock", which the
// system drops with the process. Waiting for it ends with an *osfile.BusyError when the journal didn't grow for as long
// as is waited. Lines are synced before the lock is released, so that at most the last addition can be torn. A journal
// with one writer needs no more than a Disk, and Line.Append.
package journal
