// Package declared reads the declarations of tools and directives: executor, interface, grants, risk and files. It
// reads fields by their standard names, which package model finds, and reports all their problems. No schema of a
// project replaces or weakens this.
//
// # How a read goes through here
//
// model.Kind.Read calls ReadTool or ReadDirective with a fields.Reader. A reader's functions (executor, risk,
// network, files, limits, anchor, schema, offers, hook …) read one field each and report its problems. Tool.Grants
// and Tool.Interface return the result in the form of package shape.
//
// Absent fields and null are the same.
//
//	executor_id        the id of a tool, or null: then the kernel runs it
//	permissions        capabilities (package capability), at most as many as a set of them may have
//	limits             turns, tokens, spawns, depth; spend in dollars with up to 9 decimals; duration_seconds with up
//	                   to 6; "max_" before any of them means the same, with the same number; numbers may be
//	                   texts; spend_currency is USD. Depth is at most 1000, turns, spawns and spend 10^6, tokens
//	                   10^12, a duration ten years. Of tools also, from 1 on: memory_mib and written_mib, at most
//	                   2^24, output_mib 2^20, cpu_seconds ten years, processes and open_files 10^6
//	risk               read < write < infra < money < destructive; default: that of the worst effect; pure alone is
//	                   read. A tool without any of these has none: each call's is derived from its grants (Reach)
//	                   for policies alone. Everything else, such as the grants hash, counts it as destructive
//	effects            none, pure, compute, filesystem-read are read; filesystem, filesystem-write, network, http, io
//	                   write; system, process infra; the risks by their own names; all others are destructive
//	network            none, all, or hosts, as in api.example.com, "*.example.com:443"
//	files              read, write: at most 64 paths each (package portable) below the root of the project, or "."
//	                   for all of it; that of a directory is that of everything in it. What is written may be read.
//	                   Of .ai only .ai/outputs is written, and never .git, rye.lock or rye.yaml: "." leaves them out.
//	                   A tool that is pure writes nothing; of one whose risk is read it is a warning
//	packages           the list of packages of a registry that the tool needs, which is a file of its tree: its path
//	                   from the directory of the tool's own file, as in _requirements.txt
//	plugin             the bundle of the plugin whose files the tool runs with
//	secrets            names of letters, digits, . _ -
//	input_schema, output_schema, error_schema, config_schema
//	                   JSON Schemas: objects whose known keywords have values of the right types, at most 32 deep
//	anchor             enabled, mode (auto, always, never), markers_any, root (tool_dir, tool_parent, project_path),
//	                   lib, cwd, env_paths: {NAME: {prepend: [], append: []}}
//	verify_deps        enabled, scope (anchor, tool_dir, tool_siblings, tool_file), recursive, extensions,
//	                   exclude_dirs
//	child_constraints  id → min_version, max_version (both allowed themselves), range (package semver)
//	answer             the name of a function of the tool's own file (see package exec)
//	env_config         interpreter (type, var, fallback and what its type needs), env: {NAME: text}
//	inputs, outputs    of a tool names; of a directive objects with name, type, required, default, description
//	examples           at most 256 objects: name, params, files (path → text), result, error (a code), exit,
//	                   expect_files (path → text, or null for none). What is wrong with them is a warning, and no
//	                   such example passes
//	tools              of a directive the ids of tools that its model is offered by name, at most 100, each once; one
//	                   that no permission covers is a warning
//	hooks              of a directive: objects with event or id; package hook checks the rest
//
// An unknown entry of anchor, verify_deps, child_constraints, limits or files is a problem, not ignored: it would
// promise something that doesn't happen. Limits are exact decimals and never go through a double; written back, each
// has one form.
package declared
