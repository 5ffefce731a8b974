// Package exec answers: run it, and what ran?
//
// A Kernel runs calls. It is given the items to take them from as a value, a Base, made of a set of pins (package lock)
// or of spaces, and opens no lock itself. Prepare decides everything about a call and starts nothing; Run does what was
// decided, and writes down what became of it.
//
//	base := &exec.Base{Resolver: set.Resolver(view), Admit: ai.NewAdmitter(resolver, set.Examiner(trust)), Set: set.ID()}
//	plan, err := kernel.Prepare(ctx, base, &exec.Call{Ref: ref, Params: params})
//	defer plan.Close()
//	result, err := plan.Run(ctx, sink)
//
// # The way of a call
//
//	chain       found by package ai, from the tool to the primitive
//	admission   of every link, by its bytes as they are read now and the policies as they are now: what was revoked a
//	            moment ago doesn't run. One no is the end
//	grants      what the tool declares, as far as the policies, and the call that makes this one, allow it
//	parameters  with defaults, valid by the tool's schema
//	files       of every link and its tree, from bytes that are hashed once more, in a copy that nobody else writes
//	            (package materialise); what runs is that, whatever becomes of the working tree
//	environment by package env, configuration by package template: what a caller sends is one argument, or input, and
//	            never part of a program
//	programs    that will be started, with their digests. With toolchain: enforce each has to be the one that the lock
//	            pins, is opened, hashed through what was opened, and that is what starts
//	packages    that the tool names are unpacked where it finds them
//	secrets     that it was granted are fetched, and taken out of everything that it says from here on
//	log         the call is written into the audit log. If that can't be done it isn't made
//	primitive   does the action in the sandbox (package sandbox), with what the chain says about bad moments around it, as
//	            other tries (package resilient)
//	answer      is made of what it gave by a function of the tool, where that names one
//	result      is held against the tool's output schema
//	receipt     is signed, and its digest stands in the log, and in the receipt of the call that made this one
//
// # Whose items they are
//
// A chain is the user's own if each link is of the library in the binary, or signed by a key whose private half the user
// holds. Every other is a stranger's, and so is a tool that is run with Dev, for nobody has vouched for it. A stranger's
// chain runs in the sandbox that exec.strangers of the policy asks for, Landlock if it says nothing, or not at all; and
// it is granted what an entry of the policy's grants says, without one nothing. The user's own runs in what the machine
// has, as long as that isn't less than exec.floor.
//
// # Grants
//
// A tool says under files, network, permissions and secrets what it needs. What it doesn't say it doesn't get: it reads
// its own files and the system's programs, writes a home and a directory for temporary files of its own that are gone
// afterwards, and reaches nobody. Of the project it gets the files it names, but never, to write, .ai besides
// .ai/outputs, .git, rye.lock and rye.yaml, and through no symbolic link. A policy's grants may hold, besides
// capabilities,
//
//	files:read:PATH   files:write:PATH   network:HOST   network:*
//
// and only take away. A call that a call makes is allowed no more than that one.
//
// # Packages
//
// A tool that names a list of packages (package lock/packages), a file of its tree, has them in a copy of their own beside
// that of the chain, which RYE_PACKAGE_PATH tells the runtime: site-packages for Python, for Node the directory that
// node_modules is in. Only the lock says which they are: each file that the list allows is an artifact there, without a
// lock there is none, and nothing is looked for elsewhere. The bytes are hashed once more as they come from the store,
// the archive is looked at to its end (package unpack), and the copy is compared with all that, every time; it is made
// once for all that name the same. No package sees those of another tool. What nobody pinned, as a virtual environment or a
// node_modules of the project, isn't looked into by a runtime of the library that has been told a package path.
//
// Of the wheels of one version that fits best which the Python that will run takes, by its own word: it is asked, in the
// sandbox and without files or network, if there is one among them that isn't for every Python, or a marker in the list.
// That is all that is started before a call is written into the log. Commands that packages bring along aren't made.
//
// # Answers
//
// A tool in Starlark that is run by another primitive may name a function of its file under answer. What the primitive gives
// isn't the result then: the function is called with it, in a process and sandbox of its own that has the pinned files and
// nothing else, and what it returns is. Its one argument is a dict:
//
//	params   the parameters
//	result   what the primitive gave
//	failed   whether that is a failure, and under failure why, in its words
//	ended    what ended it before its time, as "timeout"; "" if nothing did
//	signal   that ended the process; "" if none did
//	seconds  how long it may have taken
//
// What was ended before its time stays a failure whatever the function says, and any other unless it returns "success": True.
// A function that can't be called, or fails, is a failure of the call. What the primitive writes to standard output isn't
// passed on: the answer is what stands there.
//
// # Secrets
//
// A secret that a tool declares, and that exec.secrets of the policies names for it, is a variable of the process (package
// secret says of which name), and ${NAME} in the configuration of the chain; not in env_config. It reaches nothing else: a plan
// shows ${NAME}, and the action that has the value is gone with the call. One that is declared and not granted, not set or
// expired is an error when the call is run, and so is every one with Dev. A call that a call makes gets those that both declare.
//
// The values of a call, and of the calls that led to it, are taken out of what the primitive tells the sink, of its result,
// its errors and the digests in the log and the receipt (package redact). What a tool writes into files is its own affair.
//
// # Names in templates
//
//	tool_path, tool_dir, tool_parent   of the tool's file, in the copy
//	anchor_path                        the directory that a tool of several files works from
//	runtime_lib                        what the runtime brings along
//	project_path, user_space           the directories that they are called after
//	params_json                        the parameters, as JCS
package exec
