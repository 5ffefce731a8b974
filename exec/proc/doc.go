// Package proc runs programs, waits for them, and kills their leftovers. It is the only importer of os/exec.
//
// The program gets its arguments, environment and directory unchanged: nothing is split, expanded or looked up, and a
// nil environment is an empty one. It has a session of its own, so no terminal, and the files 0, 1 and 2; all other
// files of this process, opened or inherited, are closed for it. Arguments that can't be passed (with a NUL, or too
// long for the system) are an error before anything starts.
//
// # How a run goes through here
//
// Run checks the command (Check), starts the program, and kills its tree when the context ends (tree.kill). tree.wait
// waits for the program, kills its leftovers and reaps it, and exitOf reads its usage.
//
// With Program set the kernel executes the open file by its descriptor, so swapping the path has no effect. A script
// can't be executed that way, since its interpreter would open a path again: start the interpreter instead.
//
// # The end
//
// When the context ends, the program is killed. When the program has ended, its process group is killed, and on Linux
// also its descendants at that time. Run returns after reaping the program and reading its output to the end. On
// Linux the program is killed when this process dies.
//
// Run misses a grandchild in a session of its own whose parent has ended: it is in no known group and below no known
// process. Run programs that may do this in a sandbox.Machine, at any level: there a process of rye inherits orphans,
// as process 1 of their namespace or as their subreaper.
//
// On systems other than Linux and macOS only the program itself is killed.
package proc
