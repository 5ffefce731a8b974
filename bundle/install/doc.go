// Package install is the bundles of a user: their installed versions, history and files in the store.
//
//	.ai/bundles/ID/manifest.yaml                        the manifest of the installed version with its signatures
//	.ai/bundles/ID/history/VERSION-FIRST12.yaml         the same for previously installed versions
//	.ai/bundles/.lock                                   locked by the process that changes any of this
//
// manifest.yaml is the pointer: it is replaced by one rename, so that a reader finds the old version or the new one,
// whole. FIRST12 are the first digits of the manifest's id. The bytes of all files are in the store under the digests
// of the manifest, and every read hashes them. Nothing is unpacked.
//
// # In the store
//
//	bundles/HEX                                         the document, without signature lines: the bundle is complete
//	bundles/HEX/files                                   the tree of its files, which keeps them from gc
//	bundles/HEX/evidence                                the tree of its evidence, if it has any
//	bundles-v1/HEX, …/files                             the same of a v1 bundle, with its manifest among its files
//	signatures/HEX                                      the blob of its signature lines, the union of all that came
//	proofs/HEX/LOG                                      the blob of the proof that a registry's log has the bundle
//	installed/PLACE/HEX, …/files, …/evidence            the same for what a user space has or had
//
// HEX are the 64 digits of the manifest's id, LOG are the first 16 digits of the digest of a log's name. Ids and
// versions can't be part of these names, which are shorter than an id may be and don't allow "+". PLACE are the first
// 16 digits of the digest of the directory's path: several user spaces can use one store, and none removes refs of
// another.
//
// # How an install goes through here
//
// Import puts blobs into the store as they arrive, verifies the whole bundle there, and only then puts the document
// and sets the refs, that of the document last. Install calls swap, which verifies the bundle in the store again,
// sets the refs that keep it, and records the step in the Journal. point then copies the old manifest into the
// history and renames the new one into place. A crash leaves the old version or the new one, at worst with
// superfluous refs and a history file, which the next install reuses and Remove removes. A version is recorded before
// it is in use, never after.
//
// An install by name never goes back to an older version, from any source, and a version never becomes another bundle
// (package rollback): both are a *rollback.Error. An install by digest, as Rollback does it, may go back. It is
// recorded too.
//
// One process changes a user space at a time; others wait, and get an *osfile.BusyError after a while.
package install
