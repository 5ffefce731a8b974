// Package transcript reads, writes and verifies the record of a thread: the requests to the model, its answers, the
// calls, and the end of the thread. Anyone can check it with a public key.
//
// # Files
//
//	.ai/threads/ID/transcript.jsonl   one event a line, appended
//	.ai/threads/ID/payloads           payloads of more than 4 KiB, one a line, appended
//	.ai/threads/ID/thread.json        a summary for people and other programs; unsigned, rebuilt from the others
//
// with mode 0600. A line is one object in canonical form (package jcs), LF at its end, at most 8 KiB:
//
//	{"payload":{…},"prev":"blake3:…","seq":7,"thread":"acme/deploy-1795000000-k3v9q","time":"2026-11-20T12:00:00.123Z","type":"hook"}
//
// seq counts from 1. prev is the digest of the previous line without LF; in the first line it is 64 zeros. thread
// is the id of the thread, the same in every line. A payload whose canonical form has more than 4 KiB is in the
// file payloads, followed by LF. Its line has, instead of payload, the payload's offset there, its digest and its
// size without LF:
//
//	{"large":{"at":0,"digest":"blake3:…","size":5120},"prev":"blake3:…","seq":8,"thread":…,"time":…,"type":"request"}
//
// The file payloads has nothing else between two payloads. So the digest of a line covers every line and every
// payload before it.
//
// # How a record goes through here
//
// Create and Open make a Writer. Writer.Append prepares a batch (encode, order.next, Event.sign for a checkpoint),
// takes the guard, and writes and syncs payloads and lines (writePayloads, extend). Reader.Next reads a line,
// parses it (parseLine), and checks the chain, the payload and the order. Verify reads all events with a Reader,
// checks each checkpoint's signature, and puts the proven facts into a Report.
//
// # Events
//
// The JSON Schema of every payload is schema.json of this package ("rye schema transcript"); Append refuses
// payloads that don't fit it. Money is in nano-dollars, durations are in nanoseconds. Empty members are left out.
// The caller redacts all text before Append.
//
//	thread_started    the first line, and only that, with everything that the thread is bound to; given are the
//	                  inputs, inputs is their digest
//	  {"depth":10,"directive":{"digest":"blake3:…","ref":"directive:acme/deploy"},"format":"rye transcript/2",
//	   "given":{"site":"a.example"},"grants":["execute:tool:acme/*"],
//	   "inputs":"blake3:…","kind":"directive","limits":{"spend":1000000000,"turns":25},"lock":"blake3:…",
//	   "loop":{"digest":"blake3:…","ref":"tool:rye/agent/loop"},
//	   "model":"claude-sonnet-4","parent":"acme/plan-1795000000-a2b3c","policy":["blake3:…"],"principal":"ann",
//	   "provider":{"digest":"blake3:…","ref":"tool:rye/agent/providers/anthropic"},"set":"blake3:…"}
//	driver            a process begins to drive the thread: the second line, and one per claim; key signs the
//	                  checkpoints up to the next driver, and voucher (package receipt) is a user's for it
//	  {"epoch":1,"host":"build-7","key":"11qY…","process":4711,"program":"rye 2.0.0",
//	   "started":"2026-11-20T12:00:00.000Z","voucher":{…}}
//	request           before a model call. digest is that of the loop's whole request, redacted, in
//	                  canonical form; its first "kept" messages are those of the previous request, and
//	                  "messages" follow them; tools are the offered ones, if they differ from the previous request
//	  {"attempt":1,"digest":"blake3:…","kept":3,"messages":[{"role":"user","text":"…"}],"model":"claude-sonnet-4",
//	   "provider":{"digest":"blake3:…","ref":"tool:rye/agent/providers/anthropic"},"reserved":12000000,
//	   "tools":[{"name":"rye_execute"}],"turn":2}
//	answer            the model's answer to the last request. cost is the settled amount; "kept" means that it is the
//	                  reservation, because the provider reported no usage
//	  {"attempt":1,"calls":[{"id":"toolu_01","input":{"item_id":"acme/x"},"name":"rye_execute"}],"cost":3400000,
//	   "duration":812000000,"model":"claude-sonnet-4-20260514",
//	   "stop":"tool_calls","text":"I'll look.","turn":2,"usage":{"cache_read":900,"input":120,"output":48,
//	   "reported":true}}
//	error_classified  a failed model call and its classification
//	  {"action":"retry","attempt":1,"category":"rate_limited","delay":2000000000,"error":{"code":"RATE_LIMITED",
//	   "message":"…","status":429},"id":"http_429","retryable":true,"said":"slow_down","turn":2,"type":"rate_limit_error"}
//	call_started      before a tool call, and synced before it can have an effect. call is unique in the thread, id
//	                  is the model's, key lets the tool recognise a repetition, child is the
//	                  thread started; risk is the declared one, or destructive if the tool declares none
//	  {"call":"c4","digest":"blake3:…","id":"toolu_01","input":{"path":"a"},"name":"rye_execute",
//	   "ref":"tool:acme/x","risk":"write","turn":2}
//	call_result       the result of the call: ok, failed, refused, timeout, cancelled, or unknown for a call that had
//	                  begun when the process died. output is for the model; exec is the call in the audit
//	                  log
//	  {"call":"c4","duration":51000000,"exec":"c-81","output":"done","receipt":"blake3:…","result":"blake3:…",
//	   "status":"ok"}
//	artifact          a result that is too large for the model, which reads it in pages
//	  {"call":"c4","content":"…","digest":"blake3:…","type":"text/plain"}
//	hook              a hook ran
//	  {"action":"retry","event":"error","id":"default_retry_transient","layer":2,
//	   "ref":"tool:rye/agent/threads/internal/control","result":{…}}
//	limit             a limit was reached: of turns, tokens, spend, duration, spawns, depth, or the context window
//	  {"action":"escalate","code":"turns_exceeded","current":25,"max":25}
//	waiting           the thread stops without an end: state is waiting or interrupted
//	  {"on":"a-91","reason":"approval","state":"waiting"}
//	continued         the thread continues, perhaps with other limits and a message
//	  {"limits":{"turns":40},"message":"Go on.","principal":"ann"}
//	checkpoint        after every turn, and the last line: the digest so far, signed
//	  {"sig":"rye:signed:v2:2026-11-20T12:00:03Z:…:…:…","turn":2}
//	node_started      a node of a graph begins; step counts from 1, and attempt those of one step, from 2
//	  {"kind":"action","node":"fetch","step":1}
//	node_result       the result of a node; next is its successor, missing at the end
//	  {"calls":1,"next":"done","node":"fetch","status":"ok","step":1}
//	state             the state of the graph after a node, and its digest; same means that it equals that of the
//	                  previous step
//	  {"digest":"blake3:…","next":"done","state":{"page":"…"},"step":1}
//	returned          the graph has ended with the state of that digest
//	  {"digest":"blake3:…","node":"done","step":2}
//	thread_completed, thread_error, thread_cancelled, thread_continued    one of them, once; only a checkpoint
//	                                                                      follows
//	  {"cost":{"elapsed":9100000000,"input_tokens":1020,"output_tokens":96,"spend":6800000,"turns":2},
//	   "outputs":{"url":"…"},"result":"Deployed."}
//	  {"cost":{…},"error":{"code":"LIMIT_EXCEEDED","message":"…"}}
//	  {"by":"ann","cost":{…},"killed":true}
//	  {"cost":{…},"next":"acme/deploy-1795000100-zz2b4","reason":"context"}
//
// Nothing is recorded twice. Other events replace those of rye 1 without a type here: request replaces
// cognition_in, answer cognition_out and cognition_reasoning, call_started tool_call_start and
// child_thread_started, call_result tool_call_result, the call and the outputs of thread_completed
// directive_return, waiting thread_suspended, continued thread_resumed, thread_continued thread_handoff, limit
// limit_escalation_requested and context_limit_reached, checkpoint checkpoint_saved. Deltas of text (token_delta,
// cognition_out_delta) are shown live and never recorded.
//
// # Order
//
// Append and Verify refuse an impossible order: a line before thread_started or a second thread_started, an epoch
// that doesn't rise, an answer or error_classified for another request than the last, a call that begins while it
// runs (at most 1,024 run in parallel) or ends without having begun, and anything but a checkpoint after the end.
//
// # Checkpoints
//
// sig is a line of package sign without comment marks, in the domain rye/v2/transcript. It is for the name
// "transcript:" with the thread's id, and for the digest of the checkpoint's own line without the member sig.
// Through prev it covers every line and payload before it. The last checkpoint proves a transcript up to that
// point: anyone could have written the lines after it. Removing the lines after a checkpoint restores an earlier
// transcript. So a transcript proves the thread's end only if it ends with an end event and a checkpoint, and a
// Position from an earlier report or registry must still be there.
//
// # Durability
//
// Append writes and syncs the payloads of its events, then writes and syncs the lines: one sync without large
// payloads. A process that dies may leave the beginning of a line without LF, NULs instead of unwritten bytes (16
// in a row identify them), or payloads that no line names. Open removes such an end. Anything else that isn't the
// next line is a *Problem, and Open refuses it. Readers take no lock and end at the last complete line.
//
// # The lock
//
// The file rye.lock of the directory has the bytes of the lock that the thread began with; the first line has its
// digest. It is written before that line and never changed. A thread without a lock has no such file, and neither
// has a thread of an older rye.
//
// # Limits
//
// A line has at most 8 KiB, a payload 16 MiB and 2^18 values, the file of payloads 8 GiB less one byte, a
// transcript a million lines, the last 64 reserved for the end. Reading takes memory for one event and
// the open calls; Verify also for each called item, at most 10,000.
//
// # Schema and totals
//
// schema.json is the JSON Schema of a line. A SpendTable adds up the use of threads from the events of their
// transcripts.
//
// Each model call counts in one row, grouped by any of these:
//
//	model      PROVIDER/MODEL, as requested
//	day        of the answer, in UTC: 2026-11-25
//	directive  of the thread
//
// A child's calls are in its own transcript, so no call counts twice. A thread that replays a record has cost
// nothing and doesn't count.
package transcript
