// Package floor answers: what is the least that has to hold where an item is executed?
//
// It is the section "exec" of a policy, but for the secrets, and what a project's may add to a root's:
//
//	exec:
//	  floor: landlock
//	  strangers: namespace
//	  network: [api.acme.example, "*.acme.example:443"]
//	  toolchain: enforce
//	  audit: required
//	  dotenv: project
//	  limits: {memory: 512MiB, processes: 100}
//
//	floor       the least sandbox for every item: none, limits (environment, directory, resource limits), landlock
//	            (and rules over files and system calls), namespace (and namespaces of its own); each includes those
//	            before it
//	strangers   the same for items of other people's keys; landlock if nothing is said
//	network     the most that an item may reach, whatever it was granted: all, none, or hosts
//	toolchain   record, or enforce: what executes is pinned too
//	audit       on, or required: no execution without a record of it
//	dotenv      none, or project: the variables in the project's .env are those of tools, too. A project's policy can
//	            only say none
//	limits      what the process of a thread in the background may use: memory, and processes with those of its
//	            tools; 1GiB and 512 if nothing is said
//
// A host is lower-case, "*." in front covers what is below it, and a port behind it leaves the others out.
package floor
