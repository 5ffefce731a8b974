// Package sandbox runs a program so that it, and everything that it starts, reaches what it was given and nothing
// else, uses no more than its limits, and leaves nothing running.
//
// # Levels
//
// A Spec names a level. Run enforces exactly that level, or refuses with an *UnavailableError that names what is
// missing: never less. An Ending lists the means.
//
//	none       its own session, only files 0 to 2, umask 022, no core dumps; everything it started ends with it
//	limits     also Limits
//	landlock   also rules over files and system calls
//	namespace  also its own processes, mounts, network and IPC; for an ordinary user in a user namespace
//
// With Most it is the highest level that works, at least the named one. Run tries from the highest level down, with
// the program itself: a place that can't be made fails before the program starts or its input is read, and the next
// run remembers that. Offers returns what the machine can enforce, by trying everything.
//
// Limiting the network to a list of hosts needs namespace: at landlock, asking for hosts asks for namespace, and Most
// falls back from there to limits. Below landlock the network is not limited.
//
// # Files
//
// For each file the nearest path above it in Read, Write, Data and Deny decides; what is below none of them can't be
// opened. Read allows reading and executing, Write also changes. So {Write: p, Read: p/.ai, Deny: p/.ai/keys, Write:
// p/.ai/outputs} means what it says. Data allows reading and changing but not executing, and has nothing in it that is
// given in another way. A path is absolute and clean, exists, and has no symbolic link in it, because any program that
// may write to a directory can make one; a path in Deny may be missing. Keep is like Read, and its paths may be
// missing too. /proc, /sys, /dev and / can't be given. Every program also gets itself, /usr, /bin, /lib*, those
// files of /etc that the loader, time zones, locales, names and certificates need, and the devices null, zero, full,
// random and urandom; of /proc, facts about the machine, or its own /proc in a namespace. No home, no /tmp, no /run.
//
// In a namespace everything outside Write and Data is mounted read-only, Data without execution, and paths in Deny are
// covered. At landlock, a directory with something inside that needs another mode is split: its entries are given one
// by one, nothing can be created in the directory itself, and one with something denied in it can't be listed. In a
// namespace the same happens if there is nothing to mount over. Nothing can be renamed or linked between two mounts.
// At landlock the system's loader still maps a file of Data as code, which Landlock doesn't see; no mode keeps an
// interpreter from reading one.
//
// A missing path of Keep can't be created. In a namespace, the program sees a directory of its own in place of the one
// that the path is missing in, and its changes are made in the real one when it has ended: see stage.Top. It replaces
// nothing that others made or wrote meanwhile; the Ending lists what has another name for that reason. Where that
// isn't possible, the real directory is split, and the Ending says why. If all paths of Keep exist, they are mounted
// read-only in the real directory; the kernel removes such a mount when a process outside renames another file over
// the path or removes it, and the program may change what is there then. rye docs threat-model says so.
//
// # System calls
//
// Package seccomp lists what is denied. Sockets are limited to the internet, if the network is granted; local sockets
// are always denied, because Landlock doesn't see a connect to a path. Socket pairs are streams. At landlock, where
// nothing is mounted read-only, changing mode, owner, times or attributes by path is denied too, because Landlock
// doesn't see that either: chmod fails there, and futimens and fchmod work on open files only in a namespace.
// Executing gains no privileges (no setuid), and root has no capabilities: file modes apply to it as to any user.
//
// # Network
//
// None, all of the machine's, or hosts. Hosts are reached through a proxy (package proxy) that listens in the
// program's own network, in which there is nothing else. http_proxy and https_proxy name it; a program that doesn't
// use it reaches nothing. There are no datagrams, and only the proxy resolves names. A granted name that resolves to
// this machine or its link is refused; an address granted as such isn't. All of the network includes the services of
// this machine and its link.
//
// # Limits
//
//	            each process            all together                    as root, or with a delegated group
//	cpu         RLIMIT_CPU              watch
//	memory      RLIMIT_DATA             watch: anonymous and shared     control group
//	processes   RLIMIT_NPROC            watch: with their threads       control group
//	files       RLIMIT_NOFILE
//	written     RLIMIT_FSIZE for a file watch: to disk, and in tmpfs
//	output                              counted as it passes
//	wall                                a clock
//
// The watch looks every 5 to 50 milliseconds: its limits may be exceeded by what can be done in that time. Without a
// control group, unmapped memory files (memfd) are limited only by RLIMIT_FSIZE, detached System V segments and shared
// pages given back with madvise by nothing, and CPU time of children that are never waited for by the wall time.
//
// A program that exceeds a limit is killed with everything that it started, and the Ending names the limit. A program
// that was only refused memory, a file or a process may end by itself.
//
// # How a run goes through here
//
// Run starts this same binary again as the second stage, with the arguments in Options that lead to package stage; if
// there are namespaces, inside them. The stage makes the place, forks, and stays above the program: as process 1 of
// its namespace, or as the reaper of orphans. Between fork and exec the child, which by then is one thread without a
// runtime, sets limits, Landlock and the filter by plain system calls. So they hold from the program's first
// instruction, and neither this process nor the stage is ever restricted. The two talk over a socket in messages of
// package stage: first the plan and the program's files, then reports. When the socket closes, because Run ends or
// died, the stage kills everything, waits for it, and reports what was used.
//
// Starting a stage takes longer than the rest of its work, so Ready starts one before its run is known, and a process
// with many runs keeps one in reserve for ten seconds. It has no data of any run, serves one run, and is discarded if
// the mounts changed. Run returns with the last report of its stage, when nothing of the program is left; the stage
// itself then ends. In this process the order is Run, Machine.run (which tries the levels), runAt and its steps
// (confine, limit, serveHosts, passFiles), converse, report.
//
// Systems other than Linux have only the limits of time and output, and no level above limits.
package sandbox
