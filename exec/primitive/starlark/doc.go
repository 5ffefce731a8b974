// Package starlark is the primitive that calls a function of a Starlark file: a tool for which no interpreter has to
// be there, and that gives the same for the same, on every machine.
//
//	file      the file; what it loads lies beside it or further down, and is pinned like it
//	function  what is called, with one argument: main if nothing is said
//	params    the argument, as JSON
//	steps     how many steps it may take, DefaultSteps if nothing is said
//	timeout   seconds, after which it is stopped
//
// The script runs in a child of this process: the same binary, entered through Guest, in the sandbox of the action. So
// the operating system holds it to files, memory, time and output as it does a program. What follows holds beside
// that, and alone where the system has less.
//
// # What comes out of it
//
// What the function returns is the value, and goes to the sink as one line of JSON on standard output: None, truth
// values, whole numbers up to 2^53, finite floats, texts in UTF-8, lists and tuples, dicts with texts as keys,
// structs. What it prints goes to standard error while it runs. A dict with "success": False is an answer that is no;
// so is fail(reason), and an error of the script, with the place: {"success": false, "error": "greet.star:3:5: …"}.
//
// # The language
//
// Starlark as specified, with sets, and with if and for outside of functions. There is no while, no recursion, no
// clock, no chance, no environment and no network. load("_words.star", "greet") takes names from another file ending
// in .star, relative to the one that says it; none outside of the tool's directory, and none in a circle. In addition
// to the names of the language:
//
//	json    encode, encode_indent, decode, indent
//	math    ceil, floor, sqrt, pow, log, pi and the like
//	struct  struct(a=1).a
//	sha256  sha256(text): 64 hexadecimal digits
//	fail    fail(reason)
//	re      search(pattern, text): the groups of the first match, the whole of it first, or None
//	        find_all(pattern, text, most=-1): those of each match
//	        sub(pattern, by, text): with by for each match, where ${1} is a group
//	        split(pattern, text): the texts between
//	        in the syntax of RE2, which takes time in proportion to the text whatever the pattern is
//	html    tokens(text): those of a page, as browsers read it: ("text", text), ("start", name, attributes),
//	        ("alone", name, attributes), ("end", name); at most MaxTokens
//	url     join(base, ref): the address that a page at base means by ref, or None
//	        parse(text): a struct of scheme, host, path and query, a dict; or None
//	fs      where there are files for it: of the project, or of the step of a build
//
// # Files
//
// Paths are relative to the project, with "/". The functions of fs are
//
//	read(path, offset=0, limit=None)  the text from a byte on: as many whole characters as fit into limit bytes.
//	                                  Without limit all of it, which is MaxRead at most. What isn't UTF-8 is an
//	                                  error, and so is too much; with otherwise=VALUE either is that value
//	write(path, text)                 puts it into a file, made with its directories if it isn't there; reports
//	                                  whether it was made. Others see the old text or the new one
//	stat(path)                        a struct with path, name, type (file, directory, link, other) and size; None if
//	                                  nothing is there
//	exists(path)                      whether something is there
//	list(path)                        what is in a directory, as stat has it, sorted by name
//	walk(path=".", skip=[])           and everything below, without what has one of these names or is in it
//	glob(pattern, path=".", skip=[])  the paths of the files below that a pattern means: * ? [a-z] {a,b}, and ** for
//	                                  any directories; one without "/" is about the name alone
//
// Each works on what was granted, the nearest path above a file deciding as in package sandbox, and opens it through
// the granted directory (os.Root). Reading follows links that lead to what was granted; writing follows none, and walk
// goes into none. Names are compared without regard to case. What is written has a name that is portable (package
// portable).
//
// # Limits
//
//	steps    those of the interpreter, counted exactly; ends with "steps"
//	memory   that of the action, 2 GiB if nothing is said. The child looks at its heap every 2 milliseconds and ends
//	         itself with "memory"; what one operation takes at once is refused by the system, which is "memory", too.
//	         x * n has 2^30 characters or elements at most, and a stack 64 MiB
//	value    16 MiB of JSON, 2^18 values, nested 60 deep
//	files    MaxRead at once, MaxEntries in a directory or a walk
//
// # Between the processes
//
// The child reads one JSON object from standard input, the fields of request: where the file is, what is called with
// which parameters, steps, memory, and the granted paths. It writes one to standard output, {"value": …}, or
// {"reason": "…", "ended": "…"}. Without either it broke, and the end of its standard error says of what.
//
// # Kept children
//
// A child that has answered waits for the next call, one at a time, of the same caller, set, tool and chain, with the
// same files, sandbox and limits (guest.Pool). Each call reads the files again and has an interpreter, globals and a
// view of files of its own. After a limit or a cancellation the child is ended, and so it is when a path that was
// granted is another file or directory than when it began. An action that may write has a child of its own, and so has
// one with something denied in what it may read.
package starlark
