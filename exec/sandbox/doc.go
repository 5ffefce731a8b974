// Package sandbox runs a program so that it, and all that it starts, reaches what it was given and nothing else, uses
// no more than it may, and leaves nothing running.
//
// # Levels
//
// A Spec names a level, and that level is what is enforced, or Run refuses with an *UnavailableError that names what is
// missing: never something less. An Outcome lists the means.
//
//	none       its own session, files 0 to 2 alone, umask 022, no core dumps; everything it started ends with it
//	limits     and Limits
//	landlock   and rules over files and system calls
//	namespace  and its own processes, mounts, network, IPC; as an ordinary user in a user namespace
//
// With Most it is the highest level that works, and at least that one. It is tried from above with the program itself: a
// place that can't be made is found out before the program is started or its input read, and remembered for the next run.
// Offers tells what the machine has, by trying it all.
//
// A list of hosts is kept at namespace alone: at landlock asking for one asks for namespace, and Most goes from there to
// limits. Below landlock nothing is kept from the network.
//
// # Files
//
// Of the paths in Read, Write and Deny the nearest one above a file decides; what is below none of them can't be opened. In Read
// and below it may be read and executed, in Write changed too. So {Write: p, Read: p/.ai, Deny: p/.ai/keys, Write: p/.ai/outputs} is
// said as it is meant. A path is absolute, clean, is there, and has no link in it, since any program that may write its
// directory can make a link; in Deny it may be missing. /proc, /sys, /dev and / can't be given. Beside these every program has /usr, /bin, /lib*, of /etc what
// the loader, time zones, locales, names and certificates need, the devices null, zero, full, random and urandom, and
// itself; and of /proc facts about the machine, in a namespace its own /proc. No home, no /tmp, no /run.
//
// In a namespace what is not in Write is mounted read-only, and what is in Deny is covered. At level landlock alone a
// directory with something inside that is to be treated otherwise is taken apart: its entries are given one by one, in the
// directory itself nothing can be made, and one with something denied in it can't be listed. The same is done in a
// namespace for what isn't there to be mounted over. Between two mounts nothing can be renamed or linked.
//
// # System calls
//
// Denied are those that reach into other processes, make or enter namespaces, mount, load code into the kernel, hold
// keys, watch the machine, and io_uring. socket has the families of the internet if the network is granted and no others, at
// no time those of local sockets: Landlock doesn't see a connect to a path. A socketpair is a pair of streams. Calls newer than
// this package don't exist; calls in another processor's way kill. No ioctl types into a terminal. At level
// landlock, where nothing is mounted read-only, changing mode, owner, times or attributes by a path is denied as well: Landlock
// doesn't see that either. A program then can't use chmod; futimens and fchmod on what it has open it can.
// No privileges are gained by executing (no setuid), and root has no capability: it is bound by the modes of files like
// everybody.
//
// # Network
//
// None, all of the machine's, or hosts. Hosts are reached through a proxy of ours (HTTP, CONNECT) that listens in the
// program's own network, in which there is nothing else. http_proxy and https_proxy name it: a program that doesn't
// use the proxy reaches nothing. No datagrams, no names but what the proxy looks up. A granted name that leads
// to this machine or its link is refused; an address granted as one isn't. With all of the network, the services of this machine
// and its link are part of it.
//
// # Limits
//
//	            each process            all together                    as root, or with a group delegated
//	cpu         RLIMIT_CPU              watch
//	memory      RLIMIT_DATA             watch: anonymous and shared     control group
//	processes   RLIMIT_NPROC            watch: with their threads       control group
//	files       RLIMIT_NOFILE
//	written     RLIMIT_FSIZE for a file watch: to disk, and in tmpfs
//	output                              counted as it passes
//	wall                                a clock
//
// The watch looks every 5 to 50 milliseconds: what it bounds may be passed by what can be done in that time. Without a control group
// unmapped memory files (memfd) are bounded by RLIMIT_FSIZE alone, detached System V segments and shared pages that
// madvise has given back by nothing, and CPU time of children that are never waited for by wall time. Control groups are used in version 1 and 2, below or beside the one we are in.
//
// What passes a limit is killed with everything else, and the Outcome names the limit; a program that only was refused
// memory, a file or a process may end by itself.
//
// # How
//
// Run starts this same binary again, as the second stage, with the words in Options that lead to Stage; where there are namespaces,
// in these. The stage makes the place, forks, and stays over the program: as process 1 of its namespace, or as the one
// that orphans fall to. Between fork and exec the child, which by then is one thread without a runtime, takes on limits, Landlock and the filter by plain system calls, so
// they hold from the program's first instruction, and neither this process nor the stage is ever restricted. They talk over
// a socket: {length, JSON} each, first the plan, then the news. When the socket closes, because Run ends
// or died, the stage kills everything, waits for it, and tells what was used.
//
// On systems other than Linux there are time and output, and no level above limits.
package sandbox
