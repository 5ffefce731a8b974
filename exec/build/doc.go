// Package build is the run of a bundle's steps: it runs again only the steps whose inputs have changed.
//
// A step of bundle.yaml (package recipe) makes files from files with a pure tool. The result of a pure tool depends on
// its inputs alone. So results are cached by the digest of the inputs, and an unchanged step doesn't run.
//
// # How a build goes through here
//
// Build selects the steps (choose), checks their tools (tools), and puts the inputs into the store (scan). Each step
// runs when the steps that it needs are done (step): do makes its action (ActionOf), looks for a cached result
// (recall), and otherwise has the Runner run the tool (Local.Run, collect). place writes the result into the project
// and records it in the Cache.
//
// # The action
//
// An action is the record of all inputs of a result, in JCS (package jcs), of the type application/vnd.rye.action.v2.
// It has no path of a machine, no time and no name of a user: the same request is the same record everywhere. Results
// are cached by its digest.
//
//	{
//	  "chain": [{"digest": "blake3:…", "ref": "tool:acme/minify", "tree": "blake3:…"}, …],
//	  "env": ["LANG=C.UTF-8", "SOURCE_DATE_EPOCH=315532800", "TZ=UTC"],
//	  "grants": "blake3:…",
//	  "inputs": "blake3:…",
//	  "media_type": "application/vnd.rye.action.v2",
//	  "outputs": ["dist/app.js"],
//	  "params": {"level": 3},
//	  "platform": "linux/amd64",
//	  "toolchain": [{"digest": "blake3:…", "name": "python3", "version": "3.13.5"}]
//	}
//
//	chain      from the tool to the primitive; tree is that of a link's other files, if it has any
//	env        the variables that every step has, in addition to those of its chain
//	grants     the grants hash of the tool: its limits are in it
//	inputs     the tree of all files that it is given
//	outputs    paths, sorted
//	packages   if the tool has any: the digest of the list of its packages (package record)
//	params     with defaults
//	platform   the operating system and the processor, by Go's names
//	toolchain  the programs that the chain names, sorted by name and digest
//
// It doesn't have the programs that those programs start, nor the system's libraries. Toolchains of one program, and
// --check, are for that.
//
// # The run
//
// The tool works in a directory that holds its inputs, all of them as old as SOURCE_DATE_EPOCH, and the directories
// that its outputs are to be in. It may write there, and in private directories, and nowhere else; it has no network
// and no secret. The directory has another name each time, so --check, which runs a step twice, finds a tool that
// writes this name into its outputs. The result is the tree of the outputs, by the rules of package portable, in the
// store. Other files are dropped.
//
// # The index
//
// Results are in a file of package checkedbolt, a checkedbolt.Cache of the format "rye build 1". Losing it costs only
// time.
//
//	"action" digest   = mac (32) outputs (32)
//	"last" what       = mac (32) outputs (32) action
//
// outputs is the digest of a tree, action the record; what is the digest of the project's path, a NUL and the step's
// name, for the last result placed there. mac is HMAC-SHA-256, under a key of 32 bytes that only the user may read, of
// the key's length in one byte, the key, and the value after mac. Without the key, a process that can write the index
// can't forge a result. An entry is ignored if its mac is wrong, or if objects are missing or damaged in the store.
//
// # Outputs in the project
//
// A file of a result is written atomically, and not touched if it is up to date. A directory that is an output has
// only the files of the result: files of the last result are removed. If it has any other file, which a build could
// not make again, the step is refused.
package build
