// Package closure computes the closure of a project: every item that its roots reach, with a pin for each.
//
// How a call goes through here: Close lists the files of all spaces (list) and turns the roots into wants (roots).
// follow takes the wants round by round: fulfil finds each item (find), look examines it and adds its edges (chain,
// uses, permissions), admit asks the policy, and pin makes its pin and stores its files (filesOf, putFiles). result
// sorts pins, uses and warnings, or returns all problems as an *Error.
//
// A lock names every item that a project may run. This package starts from the roots, follows the names in each item,
// and pins every item that it reaches: its digest, signers, interface and grants. It reads only a View, in which
// package ai decides which item a ref means: no lock, no network, no clock.
//
//	found, err := closure.Close(ctx, closure.Options{View: view, Admit: admit, Roots: project.AllRoots(),
//		Store: batch})
//
// # Roots
//
// A root that names one item needs that item. A glob covers the items in view whose refs it covers, those of bundles
// and of the library too; if several have one ref, it covers the highest. Without roots all items of the project are
// roots, or in the user's own lock all of the user. Config needs no root: config:NAME counts for every NAME in a
// space other than the library, because the kernel always reads it (below). Config that only the library has comes
// with the binary, and is pinned only if a root names it.
//
// # What an item uses
//
//	executor    a tool: the tool that runs it, which is in its own space or a lower one. needed
//	hook        a directive: what its hooks name, below. needed
//	offer       a directive: the tools that its model is offered by name. needed
//	extractor   every item: the item that says how its kind is read, where there is one. needed
//	action      a directive: what its elements <execute> and <load> name by item_type and item_id
//	permission  a directive or a tool: the item that a permission names; and all items in view that one with "*"
//	            covers, if the id begins with a name. One that begins with "*" is about everything and adds nothing
//	reference   knowledge: the knowledge whose id stands in its references, or any item by its ref
//	provider    a directive: an item that its model names, by a ref as id, tier, fallback or provider, or by the id
//	            of a tool as provider. Other words there are names of models
//
// A hook names an item by tool, which is the id of one or rye.primary.load and rye.primary.execute with the item in
// params; in an object "action" with primary (execute or load), item_type and item_id, or by an element <execute> or
// <load> with the attribute item_type and the id as attribute item_id or text. A missing item_type means "tool". Ids
// with "{", "}" or "$" are templates that are filled in at run time, so they are skipped. A reference with "://" is
// an address and is skipped too.
//
// A missing item that is needed is a problem of the item that needs it, with its line. A missing item that is only
// mentioned is a warning, except for providers, which may be missing. An item that exists and can't be used is always
// a problem.
//
// The chain of the tool determines its executor (package ai). Every other item that an item names must be within its
// reach: in its own space or a lower one, and for a bundle in the bundles that it requires. The highest item with
// that ref is then pinned, so that a project can override an item that a bundle uses.
//
// The view determines the kinds. An ignored extractor, which leaves a kind unchanged, is a warning. So is an item
// that overrides one of the library, as the root policy allows.
//
// Names in a config, in the text of a prompt, or in the arguments of a call are not followed: such items must be
// among the roots.
//
// # Cycles
//
// Directives and knowledge may name themselves or each other: the depth of calls is limited at run time. A chain of
// executors must end within ai.MaxChain links; a circle is a problem, reported once for all tools on it. Package
// resolve rejects bundles that require each other.
//
// # One item for each ref
//
// A lock has one pin for a ref. Reaching two items with one ref is an error. Example: the bundle's own runtime runs a
// tool of the bundle, and the project's tools use another runtime with the same id.
//
// # Config
//
// The pin config:NAME is the highest file of that name. Package merge merges all files of the name, and the
// definition config:NAME is the digest of the result's canonical JSON (package jcs). Config that a file extends is
// needed. A file of the user's counts only if it is the highest; below one of the project's it is left out with a
// warning, because no pin would cover it. Every other file must be admitted and valid.
//
// # Pins
//
// Every item must be valid and admitted to be used, and is pinned as it was read, once. Its signers are the keys that
// counted for the root policy; items that are built into the binary, or that the policy lists by digest, have none. A
// tool from the project or the user whose signature is of the first format can't be pinned with other files: that
// signature doesn't cover them.
//
// The bytes of items from the project or the user are written to the store, if there is one. For a tool with a tree,
// all files of its directory and the tool's own file are written as a tree by their paths in the space; all tools of
// one directory share it. The files are read again for that: a file that changed since its signature was checked is a
// problem, and its item gets no pin. Items with problems write nothing. Pins don't depend on a store.
//
// # Packages
//
// A list of packages that a tool names (package packages) must be one of the tool's files. An error in the list is a
// problem at its line. The closure names the packages but doesn't check that they can be downloaded.
//
// # Result
//
// The same spaces and policies give the same pins, definitions, uses, warnings and problems, in the same order,
// whatever the order of roots and of files on disk. All problems are reported together, and then without any other
// result.
//
// As many goroutines as processors read items, and items aren't kept: memory grows with the content of the lock only.
package closure
