// Package v1 reads and verifies the transcripts of rye 1. It never writes them.
//
// # transcript.jsonl
//
// One JSON object per line, in the form of Python's json.dumps, with at least
//
//	{"timestamp": 1771402364.25, "thread_id": "test/spawn-1771402364", "event_type": "cognition_in", "payload": {"text": "…", "role": "user"}}
//
// These types are read and converted to the types of package transcript: cognition_in (which counts turns),
// cognition_out, tool_call_start, tool_call_result, checkpoint, context_limit_reached, thread_handoff,
// thread_resumed, thread_completed, thread_error, thread_cancelled, thread_continued. Other types, such as
// token_delta, add nothing to these.
//
// A checkpoint is a line with the payload
//
//	{"turn": 2, "byte_offset": 5120, "hash": "9f86…", "sig": "…==", "fp": "7f2d9ed0b71b8e5a", "ts": "2026-02-18T08:12:44Z"}
//
// byte_offset is the offset of the line, hash the SHA-256 of the bytes before it in hexadecimal digits, sig the
// Ed25519 signature of these 64 digits in base64url with padding, and fp rye 1's id of the key (key.V1ID). Neither
// turn nor ts is signed, and rye 1 wrote the end of a thread after its last checkpoint. So a finished transcript
// always has an unsigned tail, which Verify counts (Report.Unsigned). Verify refuses a transcript with turns and
// without a checkpoint, which rye 1 considered valid.
//
// # thread.json
//
// An object whose member _signature is rye:signed:TIME:SHA256:SIGNATURE:KEY, as in signature lines of the first
// format (package sign). The SHA-256 is of the object without that member, as Python writes it with sorted keys,
// without spaces, and with all characters outside ASCII as \uXXXX; numbers keep their text from the file.
//
// A line has at most 16 MiB.
//
// # How a transcript goes through here
//
// Verify reads events with Reader.Next and parse, which hash the lines. verifier.event counts each event and checks
// checkpoints (checkpoint, Keys.signer); the counts since the last checkpoint wait in later. VerifyThread checks a
// thread.json. Converter.Says converts events for display.
package v1
