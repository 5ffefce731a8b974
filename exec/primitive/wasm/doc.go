// Package wasm is the primitive that runs a WebAssembly module, as WASI preview 1 has it, in a process of its own.
//
//	module      the file, one of the chain's own: what runs is pinned
//	args        its arguments, after its name
//	input_data  what it reads from standard input, which is empty without
//	env         its variables, and there are no others
//	root        the directory below which what it was granted is found, as / in the module
//	timeout     seconds, the compiler's included
//
// # In a child
//
// The module is compiled and run by this same binary, started again so that it calls Guest, in the sandbox that the
// action asks for: code that breaks out of the module is where any other program would be. The child reads the plan
// from the beginning of its standard input, as a 4-byte big-endian length and JSON; behind it is what the module
// reads. It answers on its standard output in frames,
//
//	1 byte   kind: 'o' and 'e' what the module writes to its standard streams, 'x' its exit status (4 bytes),
//	         't' what trapped it, 'n' why it can't be run: nothing has happened
//	4 bytes  length, big-endian, at most MaxFrame
//	…        that many bytes
//
// A message of one of the last three kinds ends them. Its standard error is the binary's own. What comes out is made a
// value of as package answer says.
//
// # What a module has
//
// Imports of wasi_snapshot_preview1 and no others, a function _start, features of WebAssembly 2.0. Of the project it
// has, under / and under their names in it, the files and directories that were granted, to read or to write.
// Directories above these can be listed, and show nothing else. No symbolic link is followed or made, no file linked
// to; a name is found by opening one directory after the other and looking whether it is the one that stood there,
// so that a link planted meanwhile leads nowhere. This holds also where the system has no sandbox. Nothing is
// renamed out of its directory. It reaches no network.
//
// A clock and chance are the machine's. For a tool that is pure the clock begins at 1970-01-01 and goes on by a
// millisecond with each look, sleeping takes no time, and chance is the same in each run.
//
// # Limits
//
// memory is that of the module, in pages of 64 KiB, and Overhead more for the whole child, compiler included: the
// system keeps that. A request for more fails, as the standard says. Time, processor time and what is written are
// limited as of every program, output is counted without frames. A module has at most MaxModule bytes.
//
// # Compiled once
//
// To compile a module of some MiB takes seconds, so what comes of it is kept, if there is a directory for it:
//
//	DIR/KEY/…       what wazero keeps, by its own names
//	DIR/RANDOM.new  in the making
//
// KEY is the BLAKE3 in hex of the line "wasm/2 ENGINE SYSTEM/PROCESSOR" and of the module. It is made by a child
// that does that alone: it reads the module, writes that directory, and is gone before the module runs in another,
// which only reads it. A module that breaks the compiler so reaches no other module's. What is damaged, or of
// another processor, isn't used. When something is kept, what was not used for longest goes, as long as there are
// more than MaxKept bytes.
//
// # Kept
//
// Loading a compiled module of some MiB takes 100 ms, so a child that has done so is kept for the next call of the
// same tool with the same grants, unless the tool may write: see guest.Pool. Each call has an instance of its own,
// with its own memory. After anything but an exit of the module, and after any limit, the next call gets a new
// child.
//
// A call that such a child takes needs no file of the chain, so none is copied or compared for it
// (primitive.Keeper): the child has the module that was pinned, whatever became of the copy that it was read from,
// and reads it no more. Where the module's file or the compiled one has been replaced by another one, there is a new
// child, and a copy that was compared before.
//
// Its memory is that of the call before, cleared, unless it was large.
//
// Copying the data of a module of some MiB into an instance takes 2 ms. From the second call on a child makes the
// next instance when it has answered, unless making one runs code of the module. It is used for a call with the same
// arguments and variables; the input and the files are those of the call.
//
// Data segments are joined (data.go) and memory is reserved and used again (memory_linux.go) because a session's
// calls show it: of calls one behind the other each takes 3.1 times as long with the segments as Go's linker writes
// them, 2.1 times with the engine's own memory, and 1.6 times with reserved memory that isn't used again (medians of
// 60 rounds in one interleaved run). A first call that loads a compiled module shows neither.
package wasm
