// Package captoken hands what a thread may do to another process, in a form that this process can't widen.
//
// Inside one process there are no tokens: the permissions are passed. A thread that runs in a process of its own
// (async_exec) gets them as a chain of tokens, the first that of the thread at the top, each signed by the machine
// key.
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
// It is a canonical document (package canon). Its id is its digest, and its one signature line is in the domain
// rye/v2/token for the name token:ID.
//
//	token        128 random bits, so that no two are the same
//	parent       the id of the token before it in the chain; the first has none
//	thread       the thread that it is for, and its directive
//	set          the lock that the threads of the chain run with; without one it is absent
//	audience     what may take it: "thread"
//	not-before, expires   from when and up to when it counts
//	depth        how many levels of threads may be below this one
//	grants       capabilities (package capability)
//
// # What is verified
//
// A chain has at most 16 tokens. Each grants no more than the one before, doesn't outlast it, has a smaller depth, and
// the same set and audience. The last is for the thread that begins: as a thread begins once, a token counts once.
// Setting the clock neither ends nor prolongs a chain that was taken: its time runs by the monotonic clock.
package captoken
