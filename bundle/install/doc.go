// Package install answers: which bundles does this user have, in which version, and how did they come here?
//
//	.ai/bundles/ID/manifest.yaml                        the manifest of the installed version with its signatures
//	.ai/bundles/ID/history/VERSION-FIRST12.yaml         the same of versions that were installed before
//	.ai/bundles/.lock                                   locked by the process that changes any of this
//
// manifest.yaml is the pointer: it is replaced by one rename, so that a reader finds the old version or the new one,
// whole. FIRST12 are the first digits of the manifest's id. The bytes of all files are in the store, under the digests
// of the manifest, and hashed whenever they are read; nothing is unpacked.
//
// # In the store
//
//	bundles/HEX                                         the document, without signature lines: the bundle is there,
//	                                                    whole
//	bundles/HEX/files                                   the tree of its files, which keeps them from gc
//	bundles/HEX/evidence                                the tree of its evidence, if it has any
//	bundles-v1/HEX, …/files                             the same of a v1 bundle, with its manifest among its files
//	signatures/HEX                                      the blob of its signature lines, the union of all that came
//	installed/PLACE/HEX, …/files, …/evidence            the same for what a user space has or had
//
// HEX are the 64 digits of the manifest's id. Ids, versions and their like can't be part of these names, which are
// shorter than an id may be and know no "+". PLACE are the first 16 digits of the digest of the directory's path:
// several user spaces can use one store, and none takes away what another one has.
//
// # What holds at every moment
//
// Import puts blobs into the store as they come, verifies all of the bundle there, and only then puts the document and
// names it; its ref is the last. Install looks at all of the bundle again, in the store, then makes the refs that keep
// it, remembers the step against rollback, keeps the manifest that was there in the history, and renames. A process
// that dies anywhere leaves the old version or the new one, and at worst refs and a file of history too many, which
// the next install of it makes use of and Remove takes away. Versions are remembered before they are in use: never the
// other way round.
//
// What is installed by name doesn't go back, whatever the source, nor does a version become another bundle (package
// rollback): a *rollback.Error. A bundle that is asked for by its digest, as Rollback does, may be older. That, too,
// is remembered.
//
// One process changes a user space at a time; others wait, and get an *osfile.BusyError after a while.
package install
