// Package create is the builder of bundles: it selects, checks, lists and signs a directory's files.
//
//	made, err := create.Create(ctx, create.Options{Dir: dir, Recipe: r, Trust: trust, Below: spaces, Store: store,
//		Sign: sign})
//
// # How a create goes through here
//
// Create calls collect, which puts the files into the store in one batch with one sync, while look searches them for
// secrets. check then examines the stored bytes, so a later change of a file has no effect, or the bundle is refused
// as changed. body makes the list. finish signs it and writes the manifest by one rename: readers see the old
// manifest or the new one, never an unsigned one. The list without its signatures is also a document in the store.
//
// Create refuses, and reports all at once:
//
//   - symbolic links and special files, names that aren't portable, two names that are one somewhere
//   - files in .ai that are in no directory of a kind, and files in .AI and the like; two files with one id
//   - items that are invalid, changed after signing, unsigned, or that the policy doesn't let be used; one with a
//     v1 signature if no admitted manifest lists its digest and those of its other files
//   - any other file that the policy revokes
//   - a tool of several files that come without one of them
//   - what looks like a secret (package secret), in a file for which the recipe has no allow-secret
//   - a bundle without files, whose entrypoint is no item of it, or that has expired
//
// Paths of recipe.Never and droppings (package portable) are left out silently.
//
// The file system decides whether a file is executable, on Windows the recipe or else the last manifest. Other
// signatures on the same list are kept, including concurrent ones (Options.Lock). So is evidence about the same files
// if the policy admits the manifest that names it. So the same files make the same manifest, byte for byte, and
// signing it again changes nothing.
//
// # Caches
//
// With a stat cache, Create doesn't read unchanged files. With a Memory, it checks nothing if no file changed. A
// Memory is a file of five lines: its format, a digest of everything that the result depends on (the paths, digests
// and modes of the files, the paths in .ai that are left out, the policies and their lists, what the recipe allows,
// this rye and what is below), the time of the policy's answer, the id of the document, and a digest of these lines.
//
//	rye found good 1
//	blake3:51c1…
//	2026-11-20T12:00:00Z
//	blake3:f08a…
//	blake3:20ea…
//
// It is valid as long as all of this is unchanged and no key or list of the policies has become valid or invalid
// since. Options.Paranoid ignores both caches, and bundle.Verify never uses them.
package create
