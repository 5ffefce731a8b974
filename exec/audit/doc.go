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
// redact).
//
// # Files
//
//	DIR/head.jsonl                                            one for all processes
//	DIR/head.jsonl.lock                                       locked while a line is added to the head; shows that a
//	                                                          log exists
//	DIR/segments/2026-11/20261120T120001Z-0123456789abcdef.jsonl   one for each process
//
// with mode 0600 in directories of mode 0700. Each is a journal of lines of JCS. Each line has its number, the
// sum of the line before, and its own sum:
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
// name "audit:" and the segment's, and of the digest of the head's line without the members sig and sum. So it is
// about the segment up to there, and about everything in the head before it.
//
// Lines of a segment:
//
//	segment  {"format":"rye audit/1","program":"rye 2.0.0","segment":"2026…"}   the first
//	begin    record.Call, and the member "call" with its id
//	end      record.End, and the same
//	ask      record.Approval: a step of a request for an approval, before it is made
//
// # What is promised
//
// A line is written before Begin returns, so that a process that is killed loses none. It is synced with the next
// checkpoint: at Close, at Checkpoint, and when a call ends after 1,000 lines or a minute. With Options.Required,
// Begin returns when the line is synced and the head, synced too, has a mark of it; calls that wait at once share
// both. If that can't be done, as on a full disk, Begin fails, and the caller must refuse the call.
//
// A segment's file is there before the head names it, and the head's line before the first call. So Verify finds, with
// the first bad line of each file: a line that was edited, cut out, added, doubled or put elsewhere; a segment that
// was removed or replaced, or that the head has no record of; the end of a segment that was cut off up to its last
// mark, and after it if it was closed; a checkpoint that isn't by a machine that counts. Who holds a machine's key can
// write any log of that machine, and the keys of who may read them lie in the same user's account: this is evidence
// towards others, and not against that user.
//
// Not found is what is taken off the end: of a segment behind its last mark (Report.Tail counts such lines), and of
// the head together with all that it says of segments. Against the second, a position that was seen once, which
// Report.Head and each receipt have, is given to Verify.
//
// What a process leaves that dies in the middle of a line, or the power that fails, is no damage: such an end is
// passed over, in the head by the next who writes. Everything else is. A head that is damaged at its end, or gone,
// isn't continued (*journal.DamagedError): a person moves the directory away. A call that has begun and not ended is
// still running, or its process died and its outcome is unknown.
//
// # Pruning
//
// Prune adds a signed line that names whole segments, in which nothing is later than a time, and an export with their
// calls. Then it removes their files. The line commits: what is still there after a process died belongs to the log no
// more, and goes with the next Prune. The head stays whole, so that all else is proven as before: who compares it with
// a position that was seen could not tell a shorter one from one whose beginning was taken away. A process has its
// segment's file locked, so that only those of processes that ended are removed.
//
// # Bounds
//
// A line has at most 64 KiB. Verify holds in memory some 16 bytes for each mark and 400 for each segment, and the ids
// of calls that haven't ended.
package audit
