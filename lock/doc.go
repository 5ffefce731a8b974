// Package lock is the set of items that a project may run, each with exactly the bytes that rye.lock pins.
//
// How a lock goes through here: NewSet starts an assembly, which reads the bundles' manifests and the tools' trees
// (assemble, readTrees), finds each pin's file (place), checks the requirements (checkRequires) and makes the spaces
// (makeSpaces). Set.View puts a view over them, and its Resolver compares each item that it finds with the pin
// (match). For comparing, NewSide does the same with whatever is available, and Compare and Weakening read two sides.
//
// Package file reads rye.lock. A Set made from it has all pinned items and no others, as spaces of files whose bytes
// are hashed on every read. Code that runs items gets a set and never opens rye.lock; several sets can be in use at
// once, and switching is moving a pointer.
//
//	set, err := lock.NewSet(ctx, l, id, lock.SetOptions{Objects: lock.First(vendored, store), Std: library})
//	view, err := set.View(ctx, trust, root.MayOverride)
//	pinned, admit := set.Resolver(view), ai.NewAdmitter(set.Resolver(view), set.Examiner(trust))
//	chain, err := ai.Walk(ctx, pinned, ref)
//
// A lock can only narrow. The policy admits pinned items at each use like all others, so signatures are only parsed
// here, not verified.
//
// # What is in a set
//
// The spaces are those of the project, of the user if something is pinned from there, of the bundles, and the library
// of the binary. In the first two are the files of pins, and for each tool with a tree all files of its directory, as
// the pin's "files" names them. In the space of a bundle is, of what its manifest lists
//
//	every pinned item
//	every file below the directory of a pinned tool with a tree, and below the one above, where its anchor can be
//	every item of the kind config, since the kernel merges all layers
//
// Other items and other files of a bundle are left out. The library is complete, because its bytes come with the
// binary. Objects also has every file of a plugin, since its servers run with all of them, and its evidence: with
// both, a vendored clone can give the plugin on as it was, even one without an item.
//
// The files of a tool's directory may include items without a pin. The set has them as files of the tree only:
//
//	the Resolver   returns an item if it is pinned, and what was found is the pinned one: its space, path, digest,
//	               version, interface and grants; else a *NotLockedError or LOCK_MISMATCH
//	the Examiner   lets no item be admitted that isn't pinned with its digest and its tree. So an extractor that
//	               isn't pinned makes no kind. Config is left to the next one
//	View           refuses a kind of pinned items that is made by an extractor that isn't pinned, and a pinned
//	               extractor that doesn't count, since then pinned items would mean something else
//	Config         merges what all spaces have, and refuses what isn't what "definitions" says. CheckConfig does so
//	               for all names, and refuses config that the lock doesn't name, unless only the library has it
//
// # What is refused
//
// A set is complete or isn't made. NewSet returns all problems as a *RefusedError:
//
//	a requirement without a bundle, or with one that it excludes
//	a bundle whose manifest isn't there (*MissingError), can't be read, or is that of another bundle or version, and
//	one that requires what isn't there or is excluded
//	a pin from a bundle that isn't in the lock, or that has no such item, or another one
//	a pin from the project or the user whose path isn't its id in a directory that can be of a kind
//	a tree that isn't there, reaches beyond the directory that can be its tool's, or lacks the tool's own file; one
//	of more than 16,384 other files, and trees with more than 524,288 files and directories together
//	two files with one path, or with paths that are one where case doesn't count
//	what is pinned from the library and is another in this binary: one *StdError for all of it
//
// NewSet doesn't check that the bytes of files are available. Objects lists everything that a set needs, for keeping,
// copying or fetching; reading a missing object returns a *MissingError that names the item that needs it.
//
// # Comparing
//
// A Side is a lock with as many of its bytes as are available: its sources may be gone, and the library may differ.
// It is compared and never run. Compare reports the differences between two, entry by entry (package file) and in
// meaning (package bundle/diff); CompareItem does so for one item and the working tree. Weakening returns the changes
// that a user must accept explicitly: removed signers, an older format, another origin, other bytes under an old
// version, and wider grants, which are read from the items themselves. Unreadable grants count as wider.
package lock
