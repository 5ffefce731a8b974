// Package closure answers: which items can be reached from a project's roots, and what are they now?
//
// A lock names every item that a project may run. This package begins with the roots, follows what each item names,
// and makes a pin of every item it comes to: its digest, who signed it, what it takes and wants. It looks at a View,
// so which item a ref means is package ai's to say, and at nothing else: no lock, no network, no clock.
//
//	found, err := closure.Close(ctx, closure.Options{View: view, Admit: admit, Roots: project.AllRoots(),
//		Store: batch})
//
// # Roots
//
// A root that names one item needs that item. A glob covers the items in view whose refs it covers, those of bundles
// and of the library too; of several with one ref it is the highest. Without roots all items of the project are roots,
// or in the user's own lock all of the user. Config isn't asked for: config:NAME counts for every NAME in a space
// other than the library, because the kernel reads it in any case (below). What the library alone has comes with the
// binary, and is pinned where a root names it.
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
// <load> with the attribute item_type and the id as attribute item_id or text. An item_type that isn't there is
// "tool". Ids with "{", "}" or "$" are filled in when it runs; they name nothing that can be looked up, and are left
// out. Of an address with "://" among references nothing is looked for.
//
// What is needed and isn't there is a problem of the item that needs it, with its line. What is only mentioned is a
// warning if it isn't there, except for providers, which may be missing. What is there and can't be used is a problem
// however it came to be reached.
//
// An executor is what the chain of the tool has (package ai). Everything else that an item names has to be in its
// reach as well: in its own space or a lower one, and for a bundle in what it requires. What is pinned then is what
// stands highest with that ref, so that a project can put its own in front of what a bundle uses.
//
// Which kinds there are, the view has found out: an extractor that doesn't count, and so leaves a kind as it was, is a
// warning. So is an item that stands in front of one of the library, as the root policy allows.
//
// What a config, the text of a prompt, or the arguments of a call name is not followed: it has to be among the roots.
//
// # Cycles
//
// Two directives may name each other, a directive itself, and so may knowledge: how deep calls go at run time is
// limited there. A chain of executors must come to an end, within ai.MaxChain links; one that comes back is a problem,
// told once for all tools on the circle. Bundles that require each other never come here (package resolve).
//
// # One item for each ref
//
// A lock has one pin for a ref. If two items with one ref are reached, as when a tool of a bundle is run by the
// bundle's own runtime and the project has another one with this id that its own tools use, that is an error.
//
// # Config
//
// The pin config:NAME is the highest file of that name. What all files of it make together, merged by package merge,
// is in the definition config:NAME: the digest of its canonical JSON (package jcs). Config that a file extends is
// needed. A file of the user's counts only if it is the highest; below one of the project's it is left out, with a
// warning, because no pin would tell of it. Each other file must be admitted and valid.
//
// # Pins
//
// Every item must be valid and admitted to be used, and is pinned as it was read, once. Its signers are the keys that
// counted for the root policy; items that the binary vouches for, or that policy lists by digest, have none. A tool
// from the project or the user whose signature is of the first format can't be pinned with other files: that signature
// doesn't speak of them.
//
// Of an item from the project or the user, the bytes are put into the store, if there is one. For a tool with a tree
// all files of its directory are, its own included, as a tree by their paths in the space: tools of one directory have
// the same. Files are read again for that, and must be what the signature was held against: one that changed in
// between is a problem and gives no pin. Nothing is put for items with problems. Without a store the pins are the
// same.
//
// # Packages
//
// A tool that names a list of packages (package packages) must have it among the files that come with it, and it must
// be such a list: what is wrong with it is a problem at its line. The closure names the packages of lists; whether
// they can be downloaded isn't asked.
//
// # What comes out
//
// The same spaces and policies give the same pins, definitions, uses, warnings and problems, in the same order,
// whatever the order of roots and of files on disk. All problems are told at once, and then there is nothing else.
//
// Items are read by as many goroutines as there are processors, and not kept: what grows with a project is what a lock
// says of it.
package closure
