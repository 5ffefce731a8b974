// Package seccomp assembles the system call filter of sandboxed programs.
//
// The filter denies calls that reach into other processes, make or enter namespaces, mount, load code into the
// kernel, hold keys or watch the machine, and io_uring, whose operations bypass filters. It also denies setuid and
// setgid bits in every mode, sockets other than the granted ones, and typing into a terminal. Calls newer than this
// package fail with ENOSYS, so programs fall back to older ones. Calls in another processor's numbering kill the
// program.
package seccomp
