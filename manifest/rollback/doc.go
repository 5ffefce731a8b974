// Package rollback answers: does this contradict what was seen before?
//
// A Journal remembers, for each name and source, which id each version had: that never changes, and what is asked
// for by name alone never goes back. It is a text file to which lines are added:
//
//	rye journal rollback/2
//	66c95ceae9d60efb move "https://example.org/a" "bundle:a" 1.2.0 blake3:3ae7… 2026-11-20T12:00:00Z 4d9b1c60f44bc434
//	4d9b1c60f44bc434 seen "https://example.org/a" "bundle:a" 1.0.0 blake3:96a4… 2026-11-20T12:00:00Z 546833b863f3fad2
//	546833b863f3fad2 forget "https://example.org/a" "bundle:a" 0f1a…
//
// A line has the sum of the line before, what happened, the source, the name, the version or counter, the id, the
// time, and the sum of all that: the first 16 digits of its BLAKE3. "seen" gives a version its id, "move" also puts
// the name at it, "forget" forgets the name. Source and name are quoted as Go does, in ASCII.
//
// What has no versions and may be done a single time, as rotations of keys may, is numbered in the order it came
// (Once): its id is not taken again, however the world has turned meanwhile.
//
// An id that comes again where none may, an older one, and another of one version are an *Error, ROLLBACK_DETECTED.
//
// Package cas/journal adds the lines and says what of an incomplete write is passed over. A damaged journal, and one
// that was there and is gone, is a *journal.DamagedError, never an empty memory; taking whole lines off the end is not
// noticed. Lines that are superseded (a forgotten name, the counters that a list left behind) are dropped when they
// are more than half of a journal of more than 256 KiB: it is then replaced.
package rollback
