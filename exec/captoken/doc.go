// Package captoken is the format of capability tokens, which pass a thread's permissions to another process in a form
// that the process can't widen.
//
// Within a process permissions are passed without tokens. A thread in a process of its own (async_exec) gets them as
// a chain of tokens, beginning with the top thread's, each signed by the machine key.
//
// # How a token goes through here
//
// Give appends a New token to the chain, which Encode signs. In the other process Take parses each token (Parse),
// verifies its signature (signed) and compares it with its parent (below). Check then runs before every call.
//
// # The document
//
//	rye: "token/2"
//	token: "qjgzp3nnmlmu5pbpmhkk3cbv4y"
//	parent: "blake3:2d3a…"
//	thread: "acme/step-1795000001-k3v9q"
//	directive: "directive:acme/step"
//	set: "blake3:77c1…"
//	audience: "thread"
//	not-before: "2026-11-20T12:00:00Z"
//	expires: "2026-11-20T12:30:00Z"
//	depth: 3
//	grants:
//	  "execute:tool:acme/echo": {}
//
// It is a canonical document (package canon). Its id is its digest, and its single signature line is in the domain
// rye/v2/token for the name token:ID.
//
//	token        128 random bits, which make every token unique
//	parent       the id of the previous token in the chain; missing in the first
//	thread       the thread that the token is for, and its directive
//	set          the lock of the chain's threads; absent without a lock
//	audience     the kind of recipient: "thread"
//	not-before, expires   when the token is valid
//	depth        how many levels of threads may be below this one
//	grants       capabilities (package capability)
//
// # Verification
//
// A chain has at most 16 tokens. Each grants no more than its parent, doesn't outlast it, has a smaller depth, and
// the same set and audience. The last token is for the thread that begins; since a thread begins only once, a token
// is used only once. Setting the clock neither ends nor prolongs a taken chain, whose time runs by the monotonic
// clock.
package captoken
