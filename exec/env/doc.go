// Package env is the environment of a chain, and the programs that it names. It doesn't read the variables of its
// process: the caller passes them. It reads the disk only through Files.
//
// # How an environment goes through here
//
// Resolve takes variables from the host (base), then those of .env, and then those of each link, from the primitive to
// the tool (resolver.link): its interpreter (interpreter, locate), its variables (variable, expand, set) and its paths
// (paths). Find looks up a program by its name or path, follows its "#!" line, and hashes each file (at, hash,
// shebang).
//
// # From the host
//
// Only these variables are taken from the host: PATH, LANG, LANGUAGE, LC_*, TZ, TERM, NO_COLOR, and on Windows those
// that programs need to start. A locale, time zone or terminal that could be a path is left out. HOME and TMPDIR (and
// their names on Windows) are private directories. So no other variable of a shell reaches a tool: no token, no
// LD_PRELOAD, PYTHONPATH, NODE_OPTIONS, BASH_ENV or GIT_SSH.
//
// PATH has those entries of the host's that are absolute directories, writable only by their owner and group, owned by
// root or the user, and outside the project and the other directories that the caller forbids, with symbolic links
// resolved. If none is left, it is the PATH of a bare system.
//
// A .env file is used only if the caller passes it, because the policy allows it. It has lines NAME=VALUE, optionally
// with "export" before them, and comments after #. Quotes around a value are removed; nothing is expanded.
//
// # From the chain
//
//	env_config:
//	  interpreter: {type: venv_python, venv_path: .venv, var: RYE_PYTHON, fallback: python3}
//	  env:
//	    LEVEL: "${LEVEL:-info}"
//	    DATA: "{tool_dir}/data"
//	anchor:
//	  env_paths: {RYE_MODULE_PATH: {prepend: ["{anchor_path}"], append: []}}
//
// Links are read from the primitive to the tool: a link nearer to the tool overrides the others and sees their values.
// Values are templates (package template) over the environment so far and the names of the kernel. Entries of
// env_paths are absolute, occur once, and contain no separator.
//
// Neither a link nor a .env may set a reserved variable, except to "": those that make the loader, a shell or an
// interpreter load other code first (LD_*, DYLD_*, PYTHON*, NODE_OPTIONS, BASH_ENV, PERL5OPT …), HOME and TMPDIR, and
// RYE_* apart from RYE_MODULE_PATH and the var of an interpreter, which only interpreters set. A PATH that a link sets
// must be as above. A variable has at most MaxVariable bytes, all together MaxTotal.
//
// # Programs
//
//	venv_python      bin/python, Scripts/python.exe or bin/python3 below venv_path (.venv) in the project
//	node_modules     node or node.exe in search_paths ([node_modules/.bin]) in the project
//	system_binary    binary, in PATH
//	version_manager  binary in version, by manager: pyenv, rbenv and asdf are asked, nvm's directories are read
//
// Scripts in PATH are ignored here: version managers put them there, and the program that they start depends on the
// directory.
//
// If it is missing, the fallback is used, an absolute path or a name in PATH. A missing fallback, or a file that can't
// be used, is a *NotFoundError. A version consists of digits, letters, "." "_" and "-". A manager has five seconds to
// answer. Every program is a regular executable file that only root or the user, and its group, may write. All
// programs are reported with their real file and its digest, including a manager that was asked, and for a script the
// interpreter after "#!" and the program that env starts there (with -S too). They are unpinned: the caller compares
// them with the lock, or records them.
package env
