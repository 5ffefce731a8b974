// Package starlark is the primitive that calls a function of a Starlark file: a tool that needs no interpreter on the
// machine, and whose results are the same on every machine.
//
//	file      the file; it can load files from its directory and below, which are pinned as well
//	function  the function to call, with one argument; main by default
//	params    the argument, as JSON
//	steps     limit on the script's steps; DefaultSteps by default
//	timeout   limit in seconds
//
// The script runs in a child process: the same binary, entered through Guest, in the sandbox of the action. So the
// operating system limits its files, memory, time and output like a program's. The limits below apply in addition, and
// alone where the system has no sandbox.
//
// # How a call goes through here
//
// Starlark.Run makes a request (newRequest), runs it in a kept child or a new one (shared, worker.Pool.Run), and turns
// the answer into a result (result). In the child, Guest reads requests, and request.serve runs each as a Program:
// Call loads the files (exec, load) and calls the function. A place resolves the paths that fs gets (clean, resolve,
// may, below).
//
// # Result
//
// The function's return value is the value, and goes to the sink as one line of JSON on standard output. It consists
// of None, bools, integers up to 2^53, finite floats, UTF-8 strings, lists and tuples, dicts with string keys, and
// structs. print writes to standard error while the script runs. A dict with "success": False is a failed answer; so
// are fail(reason), and an error of the script, with its place: {"success": false, "error": "greet.star:3:5: …"}.
//
// # The language
//
// Starlark as specified, with sets, and with if and for outside of functions. It has no while, no recursion, no clock,
// no randomness, no environment and no network. load("_words.star", "greet") takes names from another file ending in
// .star, relative to the loading file; not from outside the tool's directory, and not in a circle. In addition to the
// names of the language, a script has:
//
//	json    encode, encode_indent, decode, indent
//	math    ceil, floor, sqrt, pow, log, pi and the like
//	struct  struct(a=1).a
//	sha256  sha256(text): 64 hexadecimal digits
//	fail    fail(reason)
//	re      search(pattern, text): the groups of the first match, the whole of it first, or None
//	        find_all(pattern, text, most=-1): the groups of each match
//	        sub(pattern, by, text): the text with each match replaced by by, where ${1} is a group
//	        split(pattern, text): the texts between matches
//	        in the syntax of RE2, which takes time in proportion to the text, whatever the pattern is
//	html    tokens(text): the tokens of a page, as browsers parse it: ("text", text), ("start", name, attributes),
//	        ("alone", name, attributes), ("end", name); at most MaxTokens
//	url     join(base, ref): the address of ref on a page at base, or None
//	        parse(text): a struct of scheme, host, path and query, a dict; or None
//	fs      only for a tool with files: those of the project, or of a build step
//
// # Files
//
// Paths are relative to the project, with "/". The functions of fs are
//
//	read(path, offset=0, limit=None)  the text from a byte offset: as many whole characters as fit into limit bytes.
//	                                  Without limit the whole file, at most MaxRead bytes. A file that is longer
//	                                  or isn't UTF-8 is an error, or with otherwise=VALUE that value
//	write(path, text)                 writes a file, creating it and its directories if necessary; returns whether
//	                                  it created the file. Other readers see the old text or the new one
//	stat(path)                        a struct with path, name, type (file, directory, link, other) and size; None
//	                                  for a missing file
//	exists(path)                      whether the path exists
//	list(path)                        the entries of a directory, as stat returns them, sorted by name
//	walk(path=".", skip=[])           everything below, without entries with one of these names and their content
//	glob(pattern, path=".", skip=[])  the paths of the files below that match a pattern: * ? [a-z] {a,b}, and ** for
//	                                  any directories; a pattern without "/" matches the name alone
//
// Each checks the grants, where the nearest path above a file decides as in package sandbox, and opens the file
// through the granted directory (os.Root). Reading follows links to granted files; writing follows no link, and walk
// enters none. Names are compared without regard to case. Written files need portable names (package portable).
//
// # Limits
//
//	steps    the interpreter's steps, counted exactly; more end the script with "steps"
//	memory   the action's limit, 2 GiB by default. The child samples its heap every 2 milliseconds and ends itself
//	         with "memory"; the system refuses a single operation that takes too much, which also counts as "memory".
//	         x * n has at most 2^30 characters or elements, and the stack 64 MiB
//	value    16 MiB of JSON, 2^18 values, nested 60 deep
//	files    MaxRead in one read, MaxEntries in a directory or a walk
//
// # Between the processes
//
// The child reads a JSON object, a request, from standard input: the file, the function and its parameters, the limits
// on steps and memory, and the granted paths. It writes an object to standard output, {"value": …}, or {"reason": "…",
// "ended": "…"}. A child that writes neither has crashed, and the end of its standard error explains why.
//
// # Kept children
//
// A child that has answered waits for the next call, one at a time, of the same caller, set, tool and chain, with the
// same files, sandbox and limits (worker.Pool). Each call reads the files again, and has an interpreter, globals and a
// view of files of its own. A child ends after a limit or a cancellation, and when a granted path is another file or
// directory than when the child began. An action that may write gets a child of its own, and so does an action with a
// denied path inside a readable one.
package starlark
