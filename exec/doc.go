// Package exec runs tools: it decides what a call may do, runs it, and proves what ran.
//
// A Kernel runs calls. The items come from a Base, made of a set of pins (package lock) or of spaces; the kernel opens
// no lock itself. Prepare decides everything about a call and starts nothing. Run does what was decided and records
// the outcome.
//
//	base := &exec.Base{Resolver: set.Resolver(view), Admit: ai.NewAdmitter(resolver, set.Examiner(trust)),
//		Set: set.ID()}
//	plan, err := kernel.Prepare(ctx, base, &exec.Call{Ref: ref, Params: params})
//	defer plan.Close()
//	result, err := plan.Run(ctx, sink)
//
// # How a call goes through here
//
// Kernel.Resolve finds the chain (chain.Source.Find), the grants (grant) and the parameters (complete): all that an
// approval depends on. Target.Prepare then tries the two short ways, bare and kept; otherwise copyFiles makes the
// private copy and fill makes the environment (env.Resolve), the configuration (configure), the programs (programs),
// the action (action) and the packages (addPackages). Plan.Run fetches the secrets (secrets, disclosed), takes the
// approval (use), logs the beginning (record, audit.Log.Begin), runs the primitive and the answer (act, do, answer),
// sets the status (judge), and signs the receipt and logs the end (prove).
//
// # The steps of a call
//
//	chain       package ai finds it, from the tool to the primitive
//	admission   the current policies must admit the current bytes of every link, so a key revoked a moment ago counts
//	grants      what the tool declares, limited by the policies and by the call that makes this one
//	parameters  get their defaults and are checked by the tool's schema
//	files       of every link are hashed again and copied to a private place (package materialise); only the copy
//	            runs. A call of a function of rye needs no copy, nor does a child that still holds an earlier copy
//	environment by package env, configuration by package template; what a caller sends is one argument or input,
//	            never part of a program
//	programs    are found and hashed. With toolchain: enforce each must be pinned, and the file that was hashed is
//	            the one that starts
//	packages    that the tool lists are unpacked (package packages)
//	secrets     that were granted are fetched, and removed from all output from here on
//	approval    of a call that needs one is used up
//	log         the call is logged; if that fails, it isn't made
//	primitive   runs in the sandbox (package sandbox), with retries and the like around it (package retry)
//	answer      a function of the tool may turn the primitive's result into another
//	result      is checked by the tool's output schema
//	receipt     is signed; its digest goes into the log, and into the receipt of the call that made this one
//
// # Own and other items
//
// A chain is the user's own if each link is in the library or signed with a key that the user holds. Every other chain
// is a stranger's, and so is a tool that is run with Dev. A stranger's chain runs in the sandbox that exec.strangers
// of the policy requires, Landlock by default, or not at all; it is granted what an entry under grants allows, by
// default nothing. The user's own chain runs in the best sandbox of the machine, which must reach exec.floor.
//
// # Grants
//
// A tool declares what it needs under files, network, permissions and secrets, and gets nothing else. It always may
// read its own files and the system's programs, and write a home and a temporary directory that are removed
// afterwards. It never writes .git, rye.lock, rye.yaml, or .ai except .ai/outputs, and follows no symbolic link in the
// project. The grants of a policy only narrow; they are capabilities and
//
//	files:read:PATH   files:write:PATH   network:HOST   network:*
//
// A call made by a call is allowed no more than its caller.
//
// # Packages
//
// One link of a chain may name a list of packages (package lock/packages) in its tree. Their files are unpacked beside
// the copy of the chain, and RYE_PACKAGE_PATH and {packages_path} have their place: site-packages for Python, the
// parent of node_modules for Node. Each is an artifact that the lock pins and the list allows; without a lock there
// are none. Bytes are hashed as they leave the store, archives are read to their end (package packages), and the copy
// is compared with them before every run. Tools don't see each other's packages, and the library's runtimes ignore
// unpinned ones, such as a virtual environment.
//
// Among the wheels of a version the best for the Python that will run is chosen. If a wheel is for some Pythons only,
// or the list has a marker, that Python is asked, in the sandbox and without files or network: the only program that
// starts before a call is logged. Commands of packages aren't installed.
//
// # Plugins
//
// A link may name a plugin (plugin: ID), a bundle whose id is above its own. All files of the bundle are then part of
// the copy, below plugin/, and run as the chain's own files do. At each call the policies must admit the bundle's
// manifest and revoke none of its files. A bundle's item can only name its own bundle. An item of the project can name
// one of the lock: it then counts as another signer's, even if the user signed it.
//
// A chain that names plugin_data may write that directory, which is the only thing of the plugin that stays: it is in
// the state directory, by project, tenant, bundle and who vouches for the bundle, and survives updates. Nothing in it
// can be executed. If it isn't empty and a program of the machine takes part, which could interpret it, the result,
// the log and the receipt say "unpinned: PLUGIN_DATA". A derived risk is at least write.
//
// # Answers
//
// A Starlark tool that another primitive runs may name a function of its file under answer. It is called with the
// primitive's result, in a process and sandbox that have the pinned files alone, and returns the result of the call.
// Its one argument is a dict:
//
//	params   the parameters
//	result   what the primitive returned
//	failed   whether that is a failure, and failure why
//	ended    the limit that stopped it, such as "timeout"; "" if none did
//	signal   that ended the process; "" if none did
//	seconds  the time limit
//
// A call that a limit stopped stays a failure. Any other failure stays one unless the function returns "success":
// True. A function that can't be called, or fails, fails the call. The primitive's standard output is not passed on:
// the answer takes its place.
//
// # Secrets
//
// A secret that the tool declares, and that exec.secrets of the policies allows it, is a variable of the process
// (package secret derives its name) and ${NAME} in the configuration of the chain, but not in env_config. A plan shows
// ${NAME}; the action with the value ends with the call. A declared secret that is not granted, not set or expired is
// an error when the call runs, and always with Dev. A call made by a call gets the secrets that both declare.
//
// The values of a call, and of those that led to it, are removed from its output, its result, its errors and the
// digests in log and receipt (package redact). They are not removed from files that the tool writes.
//
// # Names in templates
//
//	tool_path, tool_dir, tool_parent   of the tool's file, in the copy
//	anchor_path                        the directory that a tool of several files works from
//	runtime_lib                        the library of the runtime
//	project_path, user_space           these directories
//	params_json                        the parameters, as JCS
//	packages_path                      the directory of the packages, where a link has any
//	plugin_root, plugin_data           the files of a plugin that a link names, and what the plugin may write
package exec
