// Package wasm is the primitive that runs a WebAssembly module with WASI preview 1, in a process of its own.
//
//	module      the file, one of the chain's own, so that it is pinned
//	args        its arguments, after its name
//	input_data  its standard input; empty by default
//	env         all of its variables
//	root        the directory that is / in the module; it sees the granted paths below
//	timeout     limit in seconds, including the compiler
//
// # How a call goes through here
//
// Wasm.Run makes a plan (planOf, confine), compiles the module into the cache if necessary (compiled), and runs it in
// a kept child or a new one (shared, guest). In the child, Guest reads plans, and plan.run compiles the module (make),
// takes or makes an instance (take, instantiate) and calls _start. The module's file calls go through a view (find,
// enter, change). With Take a call that a kept child can make skips the copies of the chain's files.
//
// # In a child
//
// This same binary, started again so that it calls Guest, compiles and runs the module in the sandbox of the action:
// code that breaks out of the module is confined like any other program. The child reads the plan from its standard
// input, as a 4-byte big-endian length and JSON; the module's input follows. It answers on its standard output in
// frames,
//
//	1 byte   kind: 'o' and 'e' the standard streams of the module, 'x' its exit status (4 bytes),
//	         't' why it trapped, 'n' why it can't run: nothing has happened
//	4 bytes  length, big-endian, at most MaxFrame
//	…        that many bytes
//
// A frame of one of the last three kinds ends the conversation. The standard error belongs to the binary. Package
// answer turns the output into a value.
//
// # The module's environment
//
// A module may import only wasi_snapshot_preview1, has a function _start, and uses features of WebAssembly 2.0. It
// sees the granted files and directories of the project under / by their names in the project, to read or to write.
// Directories above these can be listed, and show nothing else. The module can't follow or create symbolic links, nor
// create hard links. A name is resolved by opening one directory after the other and checking that it is the one that
// was examined, so that a link planted meanwhile leads nowhere. This works also on systems without a sandbox. Files
// can't be renamed out of their directory. A module has no network.
//
// The clock and randomness are the machine's. For a pure tool the clock begins at 1970-01-01 and advances by a
// millisecond at each reading, sleeping takes no time, and the random bytes are the same in each run.
//
// # Limits
//
// The memory limit is the module's, in pages of 64 KiB; the whole child, compiler included, has Overhead more, which
// the system enforces. A request for more memory fails, as the standard requires. Time, processor time and written
// bytes are limited as for every program; output is counted without frames. A module has at most MaxModule bytes.
//
// # Compiled once
//
// Compiling a module of some MiB takes seconds, so compiled modules are kept, if there is a directory for them:
//
//	DIR/KEY/…       wazero's files, by its own names
//	DIR/RANDOM.new  unfinished
//
// KEY is the BLAKE3 in hex of the line "wasm/2 ENGINE SYSTEM/PROCESSOR" and of the module. A child that only compiles
// creates the entry: it reads the module, writes that directory, and ends before another child, which can only read
// the entry, runs the module. So a module that breaks the compiler can't reach another module's entry. Damaged
// entries, and those of another processor, aren't used. After adding an entry, the least recently used ones are
// removed while they have more than MaxKept bytes together.
//
// # Kept
//
// Loading a compiled module of some MiB takes 100 ms, so the child is kept for the next call of the same tool with the
// same grants, unless the tool may write: see worker.Pool. Each call has an instance of its own, with its own memory.
// After any end but an exit of the module, and after any limit, the next call gets a new child.
//
// A call in such a child needs no file of the chain, so no file is copied or verified for it (primitive.Keeper): the
// child has the pinned module, even if the copy that it read has changed since, and doesn't read it again. If the
// module's file or the compiled one was replaced, a new child starts from a verified copy.
//
// The memory is that of the previous call, cleared, unless it was large.
//
// Copying the data of a module of some MiB into an instance takes 2 ms. From the second call on a child makes the next
// instance after it has answered, unless instantiating runs code of the module. That instance serves a call with the
// same arguments and variables; the input and the files are those of the call.
//
// Joining data segments (data.go) and reserving and reusing memory (memory_linux.go) pay off in a session: a sequence
// of calls takes 3.1 times as long per call with the segments of Go's linker, 2.1 times with the engine's own memory,
// and 1.6 times with reserved memory that isn't reused (medians of 60 rounds in one interleaved run). A first call
// that loads a compiled module shows no difference.
package wasm
