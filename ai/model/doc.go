// Package model is the interpretation of an item's file: its kind, its declarations and all its problems. It reads
// bytes, not directories, and runs nothing.
//
// # How a read goes through here
//
// Kind.RefOf turns a path into a Ref, and Kind.Marked is a quick look for the marker. Kind.Read parses the bytes with
// package parse, gives the fields their standard names (fields), fills gaps with the extractor's rules (apply), and
// decides with carries whether the file is an item. It then checks the schema (package fields) and reads the
// declarations (package declared) into a Model.
//
// # Refs
//
// An item is named kind:id, as in tool:rye/bash/bash. A kind is a lower-case letter and then a-z 0-9 -, at most 32,
// and none of audit, build, bundle, index, policy, revocations, rotation, token, transcript, which are types of
// documents. portable.CheckID checks ids. It is the path below the kind's directory without the extension; the part
// before the last slash is the category, the rest the name. A path with a segment that begins with "_" or "." is an
// asset's.
//
// # Kinds
//
//	kind       directory   extensions                                                  shape, by package parse
//	directive  directives  .md                                                         markdown_xml
//	tool       tools       .py                                                         python_ast
//	                       .yaml .yml                                                  yaml
//	                       .js .mjs .cjs .ts .sh .rb .pl .tcl .lua .star               comment_header
//	knowledge  knowledge   .md                                                         markdown_frontmatter
//	                       .yaml .yml                                                  yaml
//	config     config      .yaml .yml                                                  yaml
//
// A file is an item if it has one of these extensions and carries the marker of its kind: a tool names executor_id
// (null for what the kernel runs), a directive begins a line with <directive, knowledge has id, title or entry_type
// in its metadata, an item of an added kind has any metadata, and config is always one. Every other file is an
// asset. Marked is a quick look that may return true too often; Model.Marked is the answer. A malformed file is an
// item if its text looks like one, so that its author gets the problems.
//
// # Extractors
//
// An extractor is an item that defines how a kind is read, or adds a kind. The caller of ReadExtractor has verified
// it. Without a valid extractor the kinds of Builtin apply, and callers warn.
//
//	version: 1.0.0
//	tool_type: extractor
//	executor_id: null
//	category: acme/extractors
//	description: Prompts
//	kind: prompt                  # else the last segment of the id without _extractor
//	directory: prompts            # of an added kind only
//	extensions: [.md, .txt]
//	parser: {.md: markdown_frontmatter, .txt: {pattern: {fields: {title: '^# (.*)$'}}}}    # or one for all
//	comment: {.txt: "#"}          # comment mark of signature lines: # // <!-- or --
//	signature_format: {prefix: "<!--", suffix: "-->", after_shebang: false}               # the same for all
//	extraction_rules:             # standard fields that a file has under another name, or none
//	  summary: {type: path, key: meta.summary}
//	  name: {type: filename}
//	search_fields: {title: 3, content: 1}
//	validation_schema:
//	  fields:
//	    title: {type: string, required: true}
//	    kind: {type: string, enum: [system, user]}
//	    steps: {type: array, items: {type: object, required: [name]}}
//
// An added kind can be searched, loaded, signed, bundled and locked, but not executed. Its directory is one segment
// and none that another kind of the kernel has or that is reserved: auth bundles cache keys lockfiles logs outputs
// parsers threads trusted_keys vendor.
//
// An extractor can't: change the parser or the comments of an extension that the kernel has in the table above or
// that package sign knows (a scalar parser and signature_format are for the other extensions); define by a rule the
// source of executor_id, permissions, packages, capabilities, effects, files, limits, risk, secrets, network, pure,
// or the marker of knowledge; find these, or anything of a tool or directive, by a pattern; or switch off package
// declared. JSON and TOML files can't be items: these extensions are left out with a warning. A rule that repeats
// the default (executor_id from __executor_id__) is allowed. An extractor without a schema keeps the builtin one,
// with a warning. Unknown words anywhere are problems, because an unknown requirement can't be met.
//
// # Fields
//
// A model's Fields are the fields of the file under their standard names. YAML, comment headers and XML have these.
// Python has them as __name__, and structured ones also in capitals (CONFIG_SCHEMA, INPUT_SCHEMA, OUTPUT_SCHEMA,
// ERROR_SCHEMA, ENV_CONFIG, CONFIG, ANCHOR, VERIFY_DEPS, CHILD_CONSTRAINTS, EXAMPLES); the first counts if a file
// has both. description may be called tool_description. The default name of a tool is that of its file.
//
// # Validation
//
// All problems are reported at once, at most 200, each with its field and place; a missing field has the place of its
// object. Package fields defines schemas. Package declared checks the declarations of tools and directives, whatever
// the schema. The builtin schemas: a directive has name (snake_case, that of the file), version and description, and
// a category only if it is the path's; a tool has category, tool_type, version, description and executor_id;
// knowledge has id (the file's name), title, version and entry_type.
//
// Knowledge may have tags and references, both lists of texts; tags may be one text with commas, in every kind.
// Numbers about which JSON readers disagree are problems everywhere.
package model
