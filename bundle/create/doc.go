// Package create answers: what goes into a bundle?
//
//	made, err := create.Create(ctx, create.Options{Dir: dir, Recipe: r, Trust: trust, Below: spaces, Store: store,
//		Sign: sign})
//
// The files go into the store in one batch, with one sync, and are checked by what was stored; what a file becomes
// meanwhile has no effect, or the bundle is refused as changed. Then the list is made, signed, and written as the
// manifest by one rename, so that nothing unsigned is ever to be seen and a reader finds the old manifest or the new.
// The list without its signatures is also a document in the store. These are refused, all of them at once:
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
// What is never bundled (recipe.Never) and droppings (package portable) are left out without a word.
//
// Whether a file may be executed the file system says, on Windows the recipe and else the last manifest. Signatures of
// others on the same list stay, those too that are made meanwhile (Options.Lock), and so does evidence about the same
// files if the policy admits the manifest that names it. So from the same files comes the same manifest, byte for
// byte, and signing it again changes nothing.
//
// # What is remembered
//
// With a stat cache unchanged files aren't read, and with a Memory, if no file changed, nothing is checked. A Memory
// is a file of five lines: its format, a digest of all that an answer depends on (the paths, digests and modes of the
// files, the paths in .ai that are left out, the policies and their lists, what the recipe allows, this rye and what
// is below), the time of the policy's answer, the id of the document, and a digest of these lines.
//
//	rye found good 1
//	blake3:51c1…
//	2026-11-20T12:00:00Z
//	blake3:f08a…
//	blake3:20ea…
//
// It counts while nothing of this is different and no key or list of the policies has become valid or void since.
// Options.Paranoid asks neither. bundle.Verify asks neither, ever.
package create
