// Package ai answers: which items are there, which one does a ref mean, who vouches for it, and what runs it?
//
// Everything that a project, a user or the binary offers to agents lies in spaces. A View puts spaces one above the
// other and finds items in them; Walk follows a tool to the primitive that runs it; an Admitter says what an item is
// worth. What a file means is package model's to say, what its signatures are worth package exam's, and nothing here
// executes, prints or writes.
//
//	project, err := ai.OpenDir("/src/acme/.ai", "project", ai.Project)
//	view, err := ai.NewView(ctx, ai.Options{Spaces: []*ai.Space{project, std}, Trust: trust,
//		MayOverride: root.MayOverride})
//	item, err := view.Find(ctx, model.Ref{Kind: "tool", ID: "acme/fetch"})
//	found, err := ai.NewAdmitter(view, trust).Admit(ctx, item, policy.ToUse)
//	chain, err := ai.WalkFrom(ctx, view, item)
//
// # Spaces
//
// A space is what is in a directory .ai, on disk, in the binary, or in anything else that is a file system, such as
// the pins of a lock. There are three levels, and in the system level there may be many spaces:
//
//	project   .ai of the project
//	user      .ai of the user
//	system    bundles, and the library in the binary, which is last
//
// On disk a space is read through os.Root and no symbolic link in it is followed, neither to a file nor to a
// directory, whether it leaves the space or not: what a path means must not depend on the machine. Such files, other
// special files, and those whose names aren't portable are never items. A listing reports them, with all that can't
// be read, and goes on; a ref that means one of them is refused, and a lower space doesn't take its place.
//
// # Items and assets
//
// Each kind has a directory, such as tools/, and extensions. A file there is an item if it has one of them, in lower
// case, and carries the mark of its kind (model.Kind.Marked). Its id is its path without directory and extension:
// tools/rye/bash/bash.py is tool:rye/bash/bash. Files with another extension or without the mark, and everything below
// a name that begins with "_" or ".", are assets. What portable.Droppings tells of isn't looked at.
//
// Two items with one id in one space are ambiguous: neither is an item, and the answer names both. Ids that differ in
// upper and lower case alone are one id in a listing, because on many systems they are one file.
//
// # Which item a ref means
//
// That of the highest space that has one. For a link of a chain it is that of the space of the link before it, or of a
// lower one: what a bundle runs doesn't depend on where it is used. Of the system spaces an item may use its own,
// those that its space requires, and the library. Of two bundles none comes first: if both have the id, it is
// ambiguous.
//
// An id below rye/, in any case, is protected. If an item with such an id stands above another one, the ref is refused
// (ShadowError) unless the root policy's "override:" covers it. View.All returns what stands where, to be shown.
//
// # Kinds
//
// A view begins with the kernel's kinds. Then, from the lowest space to the highest, each extractor counts that is
// in tools/rye/core/extractors/ with a name that ends in _extractor.yaml, is a tool of the type extractor, is admitted
// by policy to be used, and makes a kind without problems: it takes the place of the kind of its name, or adds one.
// One that doesn't count leaves what was below it and is a warning. None counts that
//
//   - stands in front of an extractor of its id or kind, without override
//   - is one of two in its space for one kind
//   - moves a kind to another directory, or names a directory that is, contains or is in another kind's
//
// Extractors are read by the kernel's own kind of tool, whatever others say about tools.
//
// # Trees
//
// The other files of a tool are covered by its signature, as package tree says. Which directory they are in is said by
// the anchor of the tool, or else of the first link of its chain that has one:
//
//	anchor:
//	  enabled: true                              # else there is none
//	  mode: auto                                 # auto, always, never
//	  markers_any: [__init__.py, pyproject.toml] # auto: one of them must be beside the tool
//	  root: tool_dir                             # tool_dir, tool_parent, project_path
//	  lib: lib/python                            # beside the item that says it, whether enabled or not
//
// The root is the tool's directory; with tool_parent the one above, but not above the directory of tools; with
// project_path it is the tool's own as well, for what is elsewhere in a project is no part of a tool. If there are
// other files below the root, they are the tree, and a signature without it, or with another, is an IntegrityError.
// What a runtime has its interpreter load is in its lib, and is its own tree: the files below lib, or all files below
// the root where the anchor is active for the runtime itself.
//
// So a chain must be found before a tool can be signed or admitted: who runs it decides what belongs to it.
// verify_deps is checked for its form and changes nothing: a signature covers every file of the tree.
//
// # Chains
//
// A chain is a tool, its executor, that one's, and so on to a primitive: an item below rye/core/primitives/ whose
// executor_id is null. It has at most 10 links, none of them twice. Walk reports as a ChainError
//
//	TOOL_NOT_FOUND        there is no such tool
//	EXECUTOR_NOT_FOUND    a link names an executor that isn't there, or only in a space above
//	CIRCULAR_DEPENDENCY   an executor is a link already
//	CHAIN_TOO_DEEP        there are more than 10
//	VERSION_MISMATCH      a link's version is not among those that child_constraints of the next one allow: one
//	                      without a version, or with an invalid one, never is
//	VALIDATION_FAILED     a link has problems; or wants inputs that the one before it doesn't give, where both say
//	                      which; or the last one is no primitive
//	AMBIGUOUS, POLICY_DENIED, FILE_SYSTEM_ERROR    a link that can't be told, as above
//
// Of issues, all are told at once. A Resolver that isn't a View, such as a set of pins, gives the same
// answers by the same walk.
//
// # Config
//
// config:NAME is .ai/config/NAME.yaml of every space, merged from the lowest to the highest by package merge. A layer
// that isn't admitted is an error, and so are those of two bundles, and one above another whose name is below rye/
// (ShadowError) unless "override:" covers it.
//
// # What is remembered
//
// A View remembers kinds and nothing else: files are read anew each time, and what was hashed is what was parsed. An
// Admitter remembers what executors say about anchors while one operation lasts, and with KeepTrees the digests of the
// other files, where hundreds of tools in one directory would each read all others.
package ai
