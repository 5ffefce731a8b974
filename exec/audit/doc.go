// Package audit is the log of calls: which calls were run, who ran them and with what. It detects later changes.
//
// # How a call goes through here
//
// Log.Begin starts the process's segment if need be (start, create, announce) and adds the line "begin" (write,
// commit). Entry.End adds "end". mark and checkpoint record the length of the segment in the head, signed at intervals
// and by Close. Verify reads the head (verifier.head), then each segment (verifier.segment); List, Steps and Stats
// read the segments that the head names.
//
// A Log is one process's access to the journals of a user. Begin records a call before it may have a side effect, End
// its outcome. Package record defines the lines and how they follow each other, package cas/journal appends them, and
// package receipt has the machine's key and the proof of one call that can be shown to others. No line holds text that
// a tool or a model wrote, nor parameters or results: only their digests, of parameters without secrets (package
// redact). The exception is a question to a registry, whose words leave the machine: they stand in the log as sent.
//
// # Files
//
//	DIR/head.jsonl                                            one for all processes
//	DIR/head.jsonl.lock                                       locked while a line is added to the head; shows that a
//	                                                          log exists
//	DIR/segments/2026-11/20261120T120001Z-0123456789abcdef.jsonl   one for each process
//
// with mode 0600 in directories of mode 0700. Each is a journal of lines of JCS. Each line has its number, the sum of
// the line before, and its own sum:
//
//	{"at":"2026-11-20T12:00:02.000Z","body":{"format":"rye audit/1"},"kind":"head","line":1,"prev":"blake3:0000…","sum":"blake3:00c7…"}
//
// Lines of the head, by kind and body:
//
//	head        {"format":"rye audit/1"}                       the first
//	machine     {"key":"sgGN…","voucher":{…}}                  a key that signs checkpoints, and the voucher for it,
//	                                                           if any; before its first use, and again now and then
//	open        {"first":"blake3:9641…","segment":"2026…"}     a process begins a segment, with a line of this sum
//	mark        {"last":"blake3:f613…","lines":2,"segment":…}  the segment has so many lines, the last with this sum
//	prune       {"before":"2026-…","calls":12,"export":"blake3:…","lines":26,"segments":["2026…"],"sig":"rye:…"}
//	                                                           the files of these segments are removed; signed, in
//	                                                           the name "audit:prune"
//	checkpoint  {"closed":true,"last":…,"lines":5,"segment":…,"sig":"rye:signed:v2:…"}
//	                                                           the same, signed; closed: nothing follows
//
// The signature of a checkpoint is a line of package sign without comment marks, in the domain rye/v2/audit, for the
// name "audit:" and the segment's name. It signs the digest of the head's line without the members sig and sum. So it
// covers the segment up to there, and everything in the head before it.
//
// Lines of a segment:
//
//	segment  {"format":"rye audit/1","program":"rye 2.0.0","segment":"2026…"}   the first
//	begin    record.Call, and the member "call" with its id
//	end      record.End, and the same
//	ask      record.Approval: a step of a request for an approval, before it is made
//	query    record.Query: a question of an agent to a registry, before it is sent
//
// # Guarantees
//
// Begin returns after it has written the line, so that a killed process loses none. The next checkpoint syncs it: at
// Close, at Checkpoint, and when a call ends after 1,000 lines or a minute. With Options.Required, Begin returns once
// the line is synced and the head, synced too, has a mark of it; calls that wait at the same time share both. If that
// fails, as on a full disk, Begin fails, and the caller must refuse the call.
//
// A segment's file is created before the head names it, and the head's line is written before the first call. So
// Verify reports, with the first bad line of each file: a line that was edited, removed, added, doubled or moved; a
// segment that was removed or replaced, or that the head has no record of; a segment that was cut off before its last
// mark, or anywhere if it was closed; a checkpoint by a machine that no trusted key vouches for. A user can read
// their machine's key and can therefore write any log of that machine: the log is evidence towards others, and not
// against that user.
//
// Verify can't detect lines removed from the end of a segment behind its last mark (Report.Tail counts lines there),
// nor lines removed from the end of the head together with their segments. Against the second, pass Verify a position
// seen earlier: Report.Head and each receipt have one.
//
// An incomplete last line is no damage: a process died or the power failed while writing it. Readers skip it, and in
// the head the next writer replaces it. Everything else is damage. No process appends to a head that is missing or
// damaged at its end (*journal.DamagedError): a person must move the directory away. A call without an end is still
// running, or its process died and its outcome is unknown.
//
// # Pruning
//
// Prune adds a signed line that names whole segments whose lines are all older than a given time, and an export with
// their calls. Then it removes their files. The line commits the removal: if the process dies, files left behind no
// longer belong to the log, and the next Prune removes them. The head is never shortened, because a reader that
// remembers a position could not distinguish a shorter head from one whose beginning was removed. A running process
// locks its segment's file, so that only segments of ended processes are removed.
//
// # Limits
//
// A line has at most 64 KiB. Verify needs about 16 bytes of memory for each mark and 400 for each segment, and the
// ids of calls that haven't ended.
package audit
