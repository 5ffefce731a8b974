// Package rollback remembers the signed documents that were seen, and refuses those that contradict them.
//
// How a step goes through here: Journal.Check reads the journal (load, memory.read) and compares the step with it
// (memory.apply, step). Record, Once and Forget do the same under the lock of package journal (change) and append
// the new records (memory.add). They replace a journal when more than half of it is superseded (memory.write).
//
// A Journal remembers the id of each version, for each name and source. The id of a version never changes, and a
// name that is requested without a version never goes back to an older one. The journal is a text file to which
// lines are added:
//
//	rye journal rollback/2
//	66c95ceae9d60efb move "https://example.org/a" "bundle:a" 1.2.0 blake3:3ae7… 2026-11-20T12:00:00Z 4d9b1c60f44bc434
//	4d9b1c60f44bc434 seen "https://example.org/a" "bundle:a" 1.0.0 blake3:96a4… 2026-11-20T12:00:00Z 546833b863f3fad2
//	546833b863f3fad2 forget "https://example.org/a" "bundle:a" 0f1a…
//
// A line has the sum of the line before, the event, the source, the name, the version or counter, the id, the time,
// and the sum of all that: the first 16 digits of its BLAKE3. "seen" gives a version its id, "move" also moves the
// name to it, "forget" forgets the name. Source and name are quoted as Go does, in ASCII.
//
// Documents without versions that may be applied a single time, such as rotations of keys, are numbered in the
// order of their arrival (Once). Their ids are never accepted again, even if everything else has changed meanwhile.
//
// A repeated id in such an order, an older version, and another id for a version are an *Error, ROLLBACK_DETECTED.
//
// Package cas/journal adds the lines and skips incomplete writes. A damaged journal, and one that existed and is
// missing now, is a *journal.DamagedError, never an empty memory. Nothing notices that whole lines were cut off at
// the end. Superseded lines (of a forgotten name, or of counters that a list has left behind) are dropped when they
// are more than half of a journal of more than 256 KiB, which is then replaced.
package rollback
