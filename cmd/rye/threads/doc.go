// Package threads has the commands that read transcripts of threads: thread list, show, logs, cost, verify and
// export. They work without the process that runs the thread.
//
// How a command goes through here: find turns the argument (an id, a directory, an export, a recording or a
// transcript.jsonl) into a source. verifyRun.Run reads the trusted keys with keysOf and calls source.verify.
// showRun.Run verifies too, reads the header with overview.read, and writes the events with page. logsRun.Run and
// costRun.Run call source.follow, which calls a function for each event. source.events gives the events of both
// formats. Threads without a transcript are found by unread in the roster.
package threads
