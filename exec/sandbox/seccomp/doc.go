// Package seccomp assembles the filter of system calls that programs in a sandbox run under.
//
// Denied are the calls that reach into other processes, make or enter namespaces, mount, load code into the kernel,
// hold keys or watch the machine, and io_uring, whose calls no filter sees. The filter also denies bits of setuid and
// setgid in every mode, sockets other than those granted, and typing into a terminal. Calls newer than this package
// fail with ENOSYS, so programs fall back to older ones. Calls in another processor's numbering kill the program.
package seccomp
