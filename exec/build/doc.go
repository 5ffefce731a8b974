// Package build answers: what has to be made again?
//
// A step of bundle.yaml (package recipe) makes files of files with a tool that is pure. What a tool that is pure makes
// depends on nothing but what it is given; so a result that was found once is found again by the digest of that, and
// where nothing changed nothing runs.
//
// # The action
//
// All that a result depends on is one record, in JCS (package jcs), of the type application/vnd.rye.action.v2. It has
// no path of a machine, no time and no name of a user: the same request is the same record everywhere. Its
// digest is what results are found by.
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
//	chain      from the tool to the primitive; tree, where there is one, of a link's other files
//	env        the variables that every step has, in addition to those of its chain
//	grants     the grants hash of the tool: its limits are in it
//	inputs     the tree of all files that it is given
//	outputs    paths, sorted
//	packages   where the tool has any: the digest of the list of packages that it runs with (package record)
//	params     with defaults
//	platform   the operating system and the processor, as Go calls them
//	toolchain  the programs that are started, as far as the chain names them, sorted by name and digest
//
// What those programs start themselves, and libraries of the system, aren't in it. That is what toolchains that are
// one program, and --check, are for.
//
// # The run
//
// The tool works in a directory that holds its inputs, all of them as old as SOURCE_DATE_EPOCH, and the directories
// that its outputs are to be in. It may write there, and in private directories, and nowhere else; it has no network
// and no secret. The directory has another name each time, and a tool that writes this name into what it makes is
// found by running it twice. What is at the paths of the outputs afterwards, by the rules of package portable, is the
// result: a tree in the store. All else is forgotten.
//
// # The index
//
// Results are in a file of package sealed, a sealed.Cache of the format "rye build 1", whose loss costs time alone.
//
//	"action" digest   = mac (32) outputs (32)
//	"last" what       = mac (32) outputs (32) action
//
// outputs is the digest of a tree, action the record; what is the digest of the project's path, a NUL and the step's
// name: the last result that was put there. mac is HMAC-SHA-256, under a key of 32 bytes that only the user may read,
// of the key's length in one byte, the key, and the value behind mac. Without the key, a process that can write the
// index can't forge a result. An entry without a good mac, or whose objects the store hasn't, or not with these bytes,
// is a miss.
//
// # Outputs in the project
//
// A file of a result is put in its place whole, and not touched where it is there. In a directory that is an output
// nothing else stays: files of the last result are removed, and if there is any other file, which a build couldn't
// make again, the step is refused.
package build
