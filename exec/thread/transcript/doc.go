// Package transcript is the record of a thread: what the model was asked, what it answered, what was called, and
// how the thread ended, so that another person can check it with a public key alone.
//
// # Files
//
//	.ai/threads/ID/transcript.jsonl   one event a line, appended
//	.ai/threads/ID/payloads           payloads of more than 4 KiB, one a line, appended
//	.ai/threads/ID/thread.json        a summary for people and other programs; unsigned, made again from the others
//
// with mode 0600. A line is one object in canonical form (package jcs), LF at its end, at most 8 KiB:
//
//	{"payload":{…},"prev":"blake3:…","seq":7,"thread":"acme/deploy-1795000000-k3v9q","time":"2026-11-20T12:00:00.123Z","type":"hook"}
//
// seq counts from 1. prev is the digest of the line before, LF excluded; of the first line it is 64 zeros. thread
// is the id of the thread, the same in every line. A payload whose canonical form has more than 4 KiB stands in
// the file payloads, with LF behind it, and its line has, in place of payload, where it begins there, its digest
// and its size without LF:
//
//	{"large":{"at":0,"digest":"blake3:…","size":5120},"prev":"blake3:…","seq":8,"thread":…,"time":…,"type":"request"}
//
// Nothing stands between two payloads. So a digest of one line covers every line and every payload before it.
//
// # Events
//
// The JSON Schema of every payload is schema.json of this package ("rye schema transcript"); Append refuses what
// doesn't fit it. Money is in nano-dollars, durations are in nanoseconds. Members that say nothing are left out.
// Text is redacted by the caller before it comes here.
//
//	thread_started    the first line, and only that: what the thread is bound to; given are the inputs, inputs is
//	                  their digest
//	  {"depth":10,"directive":{"digest":"blake3:…","ref":"directive:acme/deploy"},"format":"rye transcript/2",
//	   "given":{"site":"a.example"},"grants":["execute:tool:acme/*"],
//	   "inputs":"blake3:…","kind":"directive","limits":{"spend":1000000000,"turns":25},"lock":"blake3:…",
//	   "loop":{"digest":"blake3:…","ref":"tool:rye/agent/loop"},
//	   "model":"claude-sonnet-4","parent":"acme/plan-1795000000-a2b3c","policy":["blake3:…"],"principal":"ann",
//	   "provider":{"digest":"blake3:…","ref":"tool:rye/agent/providers/anthropic"},"set":"blake3:…"}
//	driver            a process begins to drive the thread: the second line, and one for each claim; key signs the
//	                  checkpoints up to the next driver, and voucher (package receipt) says which user vouches for it
//	  {"epoch":1,"host":"build-7","key":"11qY…","process":4711,"program":"rye 2.0.0",
//	   "started":"2026-11-20T12:00:00.000Z","voucher":{…}}
//	request           before a model call. digest is that of the whole request as the loop made it, redacted, in
//	                  canonical form; of its messages the first "kept" are those of the request before, and
//	                  "messages" follow them; tools are those offered, if they differ from the request before
//	  {"attempt":1,"digest":"blake3:…","kept":3,"messages":[{"role":"user","text":"…"}],"model":"claude-sonnet-4",
//	   "provider":{"digest":"blake3:…","ref":"tool:rye/agent/providers/anthropic"},"reserved":12000000,
//	   "tools":[{"name":"rye_execute"}],"turn":2}
//	answer            the model's answer to the last request. cost is what was settled, "kept" that it is the
//	                  reservation, because the provider reported no usage
//	  {"attempt":1,"calls":[{"id":"toolu_01","input":{"item_id":"acme/x"},"name":"rye_execute"}],"cost":3400000,
//	   "duration":812000000,"model":"claude-sonnet-4-20260514",
//	   "stop":"tool_calls","text":"I'll look.","turn":2,"usage":{"cache_read":900,"input":120,"output":48,
//	   "reported":true}}
//	error_classified  a model call that failed, and what was made of it
//	  {"action":"retry","attempt":1,"category":"rate_limited","delay":2000000000,"error":{"code":"RATE_LIMITED",
//	   "message":"…","status":429},"id":"http_429","retryable":true,"said":"slow_down","turn":2,"type":"rate_limit_error"}
//	call_started      before a tool call: synced before the call may have an effect. call is unique in the thread, id
//	                  is the model's, key is given to the tool so that it can recognise a repetition, child is the
//	                  thread started
//	  {"call":"c4","digest":"blake3:…","id":"toolu_01","input":{"path":"a"},"name":"rye_execute",
//	   "ref":"tool:acme/x","risk":"write","turn":2}
//	call_result       what came of it: ok, failed, refused, timeout, cancelled, or unknown, which is a call that had
//	                  begun when the process died. output is what the model is given; exec is the call in the audit
//	                  log
//	  {"call":"c4","duration":51000000,"exec":"c-81","output":"done","receipt":"blake3:…","result":"blake3:…",
//	   "status":"ok"}
//	artifact          a result that is too large for the model, which reads it page by page
//	  {"call":"c4","content":"…","digest":"blake3:…","type":"text/plain"}
//	hook              a hook ran
//	  {"action":"retry","event":"error","id":"default_retry_transient","layer":2,
//	   "ref":"tool:rye/agent/threads/internal/control","result":{…}}
//	limit             a limit was reached: of turns, tokens, spend, duration, spawns, depth, or the context window
//	  {"action":"escalate","code":"turns_exceeded","current":25,"max":25}
//	waiting           the thread stops without having ended: state is waiting or interrupted
//	  {"on":"a-91","reason":"approval","state":"waiting"}
//	continued         it goes on, perhaps with other limits and a further message
//	  {"limits":{"turns":40},"message":"Go on.","principal":"ann"}
//	checkpoint        after every turn, and the last line: the digest so far, signed
//	  {"sig":"rye:signed:v2:2026-11-20T12:00:03Z:…:…:…","turn":2}
//	node_started      a node of a graph begins; step counts from 1, and attempt those of one step, from 2
//	  {"kind":"action","node":"fetch","step":1}
//	node_result       what came of it; next is the node that follows, missing at the end
//	  {"calls":1,"next":"done","node":"fetch","status":"ok","step":1}
//	state             the state of the graph after that, and its digest; same says that it is the one of the step
//	                  before
//	  {"digest":"blake3:…","next":"done","state":{"page":"…"},"step":1}
//	returned          the graph is through, with the state of that digest
//	  {"digest":"blake3:…","node":"done","step":2}
//	thread_completed, thread_error, thread_cancelled, thread_continued    one of them, once; only a checkpoint
//	                                                                      follows
//	  {"cost":{"elapsed":9100000000,"input_tokens":1020,"output_tokens":96,"spend":6800000,"turns":2},
//	   "outputs":{"url":"…"},"result":"Deployed."}
//	  {"cost":{…},"error":{"code":"LIMIT_EXCEEDED","message":"…"}}
//	  {"by":"ann","cost":{…},"killed":true}
//	  {"cost":{…},"next":"acme/deploy-1795000100-zz2b4","reason":"context"}
//
// Nothing is recorded twice. Events of rye 1 that have no type here are told by others: cognition_in by request,
// cognition_out and cognition_reasoning by answer, tool_call_start and child_thread_started by call_started,
// tool_call_result by call_result, directive_return by the call and the outputs of thread_completed,
// thread_suspended by waiting, thread_resumed by continued, thread_handoff by thread_continued,
// limit_escalation_requested and context_limit_reached by limit, checkpoint_saved by checkpoint. Deltas of text
// (token_delta, cognition_out_delta) are shown live and never recorded.
//
// # Order
//
// Append and Verify refuse what can't be: a line before thread_started or a second one, an epoch that doesn't
// rise, an answer or error_classified that isn't about the last request, a call that begins while it runs (at most
// 1,024 run at once) or ends without having begun, anything but a checkpoint behind the end.
//
// # Checkpoints
//
// sig is a line of package sign without comment marks, in the domain rye/v2/transcript, for the name "transcript:"
// and the thread's, of the digest of the checkpoint's own line as it is without the member sig. By prev it is
// about every line and payload before it. A transcript is proven as far as its last checkpoint: lines behind that
// are anybody's. Taking away what follows a checkpoint leaves a transcript as it stood once, so only one that ends
// in its end and a checkpoint says how the thread ended; and a Position that was seen once, of a report or a
// registry, must still be there.
//
// # Durability
//
// Append writes the payloads of its events and syncs them, then the lines, and syncs those: one sync where no
// payload is large. A process that dies leaves the beginning of a line without LF, or NUL where nothing was
// written yet (16 in a row are taken for that), or payloads that no line names. Open removes such an end. Anything
// else that isn't the next line is a *Problem, and isn't continued. Readers take no lock, and end at the last
// whole line.
//
// # The lock
//
// The file rye.lock of the directory has the bytes of the lock that the thread began with, under the digest that the
// first line names. It is written before that line, and nothing changes it. A thread without a lock has none, nor has
// one of an older rye.
//
// # Limits
//
// A line has at most 8 KiB, a payload 16 MiB and 2^18 values, the file of payloads 8 GiB less one byte, a transcript a
// million lines, the last 64 kept for how it ends. Reading takes memory for one event and the open calls;
// Verify also for each item that was called, at most 10,000.
//
// # Schema and totals
//
// schema.json is the JSON Schema of a line; Append enforces it. A SpendTable adds up what threads have used, from the
// events of their transcripts.
//
// Each model call counts in one row, by any of these:
//
//	model      PROVIDER/MODEL, as asked
//	day        of the answer, in UTC: 2026-11-25
//	directive  of the thread
//
// A child's calls are in its own transcript, so no call counts twice. A thread whose answers come from a record has
// cost nothing, and doesn't count.
package transcript
