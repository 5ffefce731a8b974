// Package v1 reads and verifies the transcripts of rye 1. It writes none.
//
// # transcript.jsonl
//
// One JSON object a line, as Python's json.dumps writes it, with at least
//
//	{"timestamp": 1771402364.25, "thread_id": "test/spawn-1771402364", "event_type": "cognition_in", "payload": {"text": "…", "role": "user"}}
//
// Of the types these are read, under the names of package transcript: cognition_in (which counts turns),
// cognition_out, tool_call_start, tool_call_result, checkpoint, context_limit_reached, thread_handoff,
// thread_resumed, thread_completed, thread_error, thread_cancelled, thread_continued. Any other, such as
// token_delta, says nothing that these don't.
//
// A checkpoint is a line with the payload
//
//	{"turn": 2, "byte_offset": 5120, "hash": "9f86…", "sig": "…==", "fp": "7f2d9ed0b71b8e5a", "ts": "2026-02-18T08:12:44Z"}
//
// byte_offset is where the line begins, hash the SHA-256 of the bytes before it in hexadecimal digits, sig the
// Ed25519 signature of these 64 digits in base64url with padding, and fp what rye 1 calls the key (key.V1ID).
// Neither turn nor ts is signed, and rye 1 wrote how a thread ended behind its last checkpoint: so a finished
// transcript always has an unsigned tail. Verify tells it (Report.Unsigned). It refuses a transcript with turns
// and without a checkpoint, which rye 1 took for valid.
//
// # thread.json
//
// An object whose member _signature is rye:signed:TIME:SHA256:SIGNATURE:KEY, as in signature lines of the first
// format (package sign). The SHA-256 is of the object without it as Python writes it with sorted keys, without
// spaces, and with everything outside ASCII as \uXXXX; numbers keep the text that they have in the file.
//
// A line has at most 16 MiB.
package v1
