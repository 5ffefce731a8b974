// Package env makes the environment that a chain runs in, and finds the programs that it names. It reads no variables of
// its own process: it is given them, and what it knows of the disk goes through Files.
//
// # From the host
//
// Of the host's variables these are taken, and no others: PATH, LANG, LANGUAGE, LC_*, TZ, TERM, NO_COLOR, on Windows
// those that programs don't start without. A locale, time zone or terminal that isn't a plain name, and so could be a
// path, is left out. HOME and TMPDIR (and what Windows calls these) are private directories. So nothing that a shell
// once exported reaches a tool: no token, no LD_PRELOAD, PYTHONPATH, NODE_OPTIONS, BASH_ENV or GIT_SSH.
//
// PATH has the host's entries in their order that are absolute, directories, writable by their owner and group
// only, owned by root or the user, and outside of the project and of what else the caller forbids, after links too. If
// none is left it is that of a bare system.
//
// A file .env counts only if the caller, whose policy says so, hands it in: lines NAME=VALUE, "export " before it if
// one likes, comments after #, a value in ' or " is what stands between, and nothing in it is expanded.
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
// The links say their part from the primitive to the tool: what is nearer to the tool wins, and sees what was said
// before. The texts are templates (package template) over the environment so far and the names of the kernel. Entries of
// env_paths are absolute, are put once, and have no separator in them.
//
// No link and no .env sets what is reserved, but to "": variables that have the loader, a shell or an interpreter load
// other code first (LD_*, DYLD_*, PYTHON*, NODE_OPTIONS, BASH_ENV, PERL5OPT …), HOME and TMPDIR, and RYE_*, which is
// ours: RYE_MODULE_PATH apart, and the var of an interpreter, which only interpreters set. A PATH that a link makes has
// to be as above. A variable has at most MaxVariable bytes, all of them MaxTotal.
//
// # Programs
//
//	venv_python      bin/python, Scripts/python.exe or bin/python3 below venv_path (.venv) in the project
//	node_modules     node or node.exe in search_paths ([node_modules/.bin]) in the project
//	system_binary    binary, looked for in PATH
//	version_manager  what manager (pyenv, rbenv, asdf: asked; nvm: its directories) has as binary in version
//
// A name in PATH that is a script is passed over here: managers of versions put them there, and what they start depends on
// the directory.
//
// What isn't there is the fallback, an absolute path or a name in PATH; without one, or if that isn't there either, it is
// a *NotFoundError, also if a file is there but unusable. A version is a name of digits, letters, "." "_" and "-". A
// manager has five seconds. Every program is a regular executable file that only root, or the user, and its group may
// write. All programs are reported with their final file and its digest: also a manager that was asked, and for a script
// the interpreter behind "#!" and what env starts there (-S included). They are unpinned; the caller compares them with
// the lock, or records them.
package env
