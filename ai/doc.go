// Package ai finds items, their chains of executors, and whether a policy admits them.
//
// Items of a project, a user and the binary are in spaces. A View stacks spaces and finds items in them. Walk follows
// a tool to the primitive that runs it. An Admitter decides whether an item is admitted. Package model interprets
// files and package admission their signatures. Nothing here executes, prints or writes.
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
// A space is the content of a directory .ai on disk, in the binary, or in another file system, such as the pins of a
// lock. Spaces have three levels, and the system level may have many spaces:
//
//	project   .ai of the project
//	user      .ai of the user
//	system    bundles, and the library in the binary, which is last
//
// A space on disk is read through os.Root, which follows no symbolic link in it, to files or directories, inside or
// outside the space: a path must not depend on the machine. Links, special files and files with names that aren't
// portable are never items. A listing reports them and unreadable files, and continues. A ref that means one of them
// is refused, and no lower space takes its place.
//
// # Items and assets
//
// Each kind has a directory, such as tools/, and extensions. A file there is an item if it has one of these
// extensions, in lower case, and carries the mark of its kind (model.Kind.Marked). Its id is its path without
// directory and extension: tools/rye/bash/bash.py is tool:rye/bash/bash. Files with another extension or without
// the mark, and everything below a name that begins with "_" or ".", are assets. Files that portable.Droppings
// names are ignored.
//
// Two items with one id in one space are ambiguous: neither is an item, and the answer names both. Ids that differ in
// upper and lower case alone are one id in a listing, because on many systems they are one file.
//
// # Which item a ref means
//
// A ref means the item of the highest space that has one. A link of a chain comes from the space of the link before
// it, or from a lower one: a bundle runs the same tools wherever it is used. Of the system spaces an item may use its
// own, the ones that its space requires, and the library. Two bundles have no order: if both have the id, it is
// ambiguous.
//
// An id below rye/, in any case, is protected. If an item with such an id is above another one, the ref is
// refused (ShadowError) unless the root policy's "override:" covers it. View.All returns the items of all spaces, for
// display.
//
// # Kinds
//
// A view begins with the kernel's kinds. It then applies extractors from the lowest space to the highest. A file
// counts as an extractor if it is in tools/rye/core/extractors/, its name ends in _extractor.yaml, it is a tool of
// the type extractor, the policy admits its use, and it makes a kind without problems. It replaces the kind of its
// name, or adds one. An extractor that doesn't count changes nothing and is a warning. An extractor is ignored that
//
//   - hides an extractor of its id or kind, without override
//   - is one of two in its space for one kind
//   - moves a kind to another directory, or names a directory that is, contains or is in another kind's
//
// The kernel's own kind of tool reads extractors, whatever other extractors define for tools.
//
// # Trees
//
// A tool's signature covers its other files (package tree). The anchor of the tool, or of the first link of its chain
// that has one, names their directory:
//
//	anchor:
//	  enabled: true                              # otherwise no anchor
//	  mode: auto                                 # auto, always, never
//	  markers_any: [__init__.py, pyproject.toml] # auto: one of them, or a list of packages, is there
//	  root: tool_dir                             # tool_dir, tool_parent, project_path
//	  lib: lib/python                            # next to the item with the anchor, enabled or not
//
// The root is the tool's directory; with tool_parent the one above, but not above the directory of tools; with
// project_path it is the tool's own as well, because a project's other files don't belong to a tool. Other files
// below the root are the tree, and a signature without it, or with another, is an IntegrityError. A runtime's lib
// holds the files that its interpreter loads. They are the runtime's own tree: the files below lib, or all files
// below the root where the anchor is active for the runtime itself.
//
// So a tool's chain must be found before the tool can be signed or admitted: its executor decides which files belong
// to it. verify_deps must be well-formed and has no effect: a signature covers every file of the tree.
//
// # Chains
//
// A chain is a tool, its executor, the executor's executor, and so on to a primitive: an item below
// rye/core/primitives/ whose executor_id is null. It has at most 10 links, none of them twice. Walk reports as a
// ChainError
//
//	TOOL_NOT_FOUND        the tool is missing
//	EXECUTOR_NOT_FOUND    a link names an executor that is missing, or only in a space above
//	CIRCULAR_DEPENDENCY   an executor is already a link
//	CHAIN_TOO_DEEP        the chain has more than 10 links
//	VERSION_MISMATCH      a link's version is not among those that child_constraints of the next one allow: one
//	                      without a version, or with an invalid one, never is
//	VALIDATION_FAILED     a link has problems; or requires inputs that the previous one doesn't give, if both declare
//	                      them; or the last one isn't a primitive
//	AMBIGUOUS, POLICY_DENIED, FILE_SYSTEM_ERROR    a link can't be determined, as above
//
// All issues are reported at once. The walk is the same for a Resolver that isn't a View, such as a set of pins.
//
// # Config
//
// config:NAME is .ai/config/NAME.yaml of every space, merged from the lowest to the highest by package merge. A
// layer that isn't admitted is an error. So are layers of two bundles, and a layer above another whose name is
// below rye/ (ShadowError), unless "override:" covers it.
//
// # How a call goes through here
//
// A check opens spaces with OpenDir, and NewView reads and admits their extractors into kinds. View.Files lists
// files, and View.Each loads them with model.Kind.Read. Admitter.Admit finds the item's Anchor (which follows
// executors for a tool), reads its Tree, asks the Examiner, and returns the decision. A run calls View.Find, then
// WalkFrom, then Admit for each link.
//
// # Caches
//
// A View caches kinds. It reads files each time, and parses the bytes that it hashed; a Space returns an item that
// it parsed from the same bytes before. An Admitter caches the anchor rules of executors for one operation, and
// with KeepTrees the digests of the other files, because hundreds of tools in one directory would each read all
// others.
package ai
