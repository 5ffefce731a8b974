// Package proc starts a program, waits for it, and ends what it has left. It is the one importer of os/exec.
//
// The program gets the arguments, the environment and the directory that it is given, as they are: nothing is split,
// expanded or looked up, a nil environment is an empty one. It has a session of its own, so no terminal, and the files
// 0, 1 and 2; whatever else this process holds open, or inherited, is closed for it. What can't be passed (a NUL, an
// argument that the system has no room for) is an error before anything starts.
//
// With Program set the open file is executed, by its descriptor: a path that is swapped meanwhile changes nothing. A
// script can't be, since its interpreter would open a path again: start the interpreter instead.
//
// # The end
//
// When the context ends, the program is killed; when it has ended, so is what remains of its process group, and on
// Linux what was found below it in the tree of processes when it was killed. Run returns after the program has been
// reaped and its output read to the end. If this process dies the program does too (Linux).
//
// A grandchild that has made its own session, and whose parent is gone, is in no known group and below no known
// process, so Run alone misses it. Run programs that may do this in a sandbox.Machine, at any level: there a process
// of rye inherits orphans, as process 1 of their namespace or as their subreaper.
//
// On systems other than Linux and macOS the program alone is killed, not what it started.
package proc
