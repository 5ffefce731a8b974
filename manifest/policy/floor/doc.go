// Package floor reads the least requirements for executing an item, and joins those of two policies.
//
// It is the section "exec" of a policy, without the secrets. Exec.Narrow adds a project's requirements to the
// root's:
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
//	strangers   the same for items of other people's keys; landlock if it is missing
//	network     the most that an item may reach, regardless of its grants: all, none, or hosts
//	toolchain   record, or enforce: the programs that execute items are pinned too
//	audit       on, or required: no execution without a record of it
//	dotenv      none, or project: tools also get the variables in the project's .env. In a project's policy only none
//	            has an effect
//	limits      what the process of a thread in the background may use: memory, and processes with those of its
//	            tools; 1GiB and 512 if it is missing
//
// A host is lower-case. "*." in front covers all hosts below it, and a port behind it excludes all other ports.
package floor
