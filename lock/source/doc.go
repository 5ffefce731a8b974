// Package source answers: which versions of a bundle are there, and can I have this one?
//
// It knows the sources that rye.yaml names (package project), and reads each once for a command:
//
//	sources := source.New(source.Options{Dir: dir, Requires: p.Requires, Fetch: client, Store: store,
//		Verify: verify, Journal: journal, Now: now})
//	found, err := resolve.Resolve(ctx, sources, request)
//	id, from, err := sources.Manifest(ctx, "acme/base", "2.1.4")
//	b, err := sources.Bring(ctx, file.Bundle{ID: "acme/base", Version: "2.1.4", Manifest: id, Source: from}, below)
//
// # Where a bundle comes from
//
//	from    a directory   the project that the bundle was made in: .ai/bundles/ID/manifest.yaml, and the files beside
//	        a file        an archive (package archive)
//	        an address    an archive, by https
//	        a repository  a project at a commit, by package git: what its manifest lists, and nothing else
//	        an image a repository of a registry, or a directory in OCI's layout, by package oci. Without a tag it has
//	        many
//	                      versions, those of its tags, and what one requires is asked when it matters
//	index   a directory   index.yaml there (package index), and archives where that says
//	        an address    an index, by https, and archives where that says
//
// A bundle that rye.yaml names comes from the source named there and from no other.
// One that only other bundles require comes from the indexes that rye.yaml names. If two of them list it that is an
// error (AMBIGUOUS), whatever versions they have: each index could otherwise replace a bundle of the other. Naming the
// bundle in rye.yaml decides.
//
// A branch or tag of a repository becomes the commit that it is now, and the tag of an image its digest, once for a
// command; with that it is the source that a lock names. What was fetched of git is gone when the sources are closed.
//
// # What is believed
//
// Only what the policy's keys have signed. An index is asked for its name (index:NAME), its end, and what was seen of
// it; then it counts for which versions there are, where, and what they require. The manifest of one bundle is
// admitted before its requirements count. When a bundle comes, it must have the manifest that was asked for, be what
// the manifest and the index say (INTEGRITY_FAILED), and pass everything that package bundle verifies; before that,
// nothing of it is to be found in the store. An archive may be no longer, and no shorter, than the index says.
//
// The journal (package rollback) remembers, under the address or the directory of an index, its issue, which never
// goes back, and its name, which never changes there (ROLLBACK_DETECTED); and under the address of an index or an
// archive, a repository at its commit, or the directory of an index, which manifest each version has that was brought
// from there; under the repository of an image, too, and under a tag that isn't a version, the version it was at
// (package remote). It is asked when a version is named, and when it is brought. A directory or file of "from" is not
// remembered: there people make their bundles, the same version many times, and rye.lock says which one it is.
//
// # Offline
//
// Without a Fetcher nothing is fetched, and nothing of a repository without a git.Client. The store keeps the last
// good index and the last bundle of each address. They are checked as if they had just arrived, so that expiry and
// revocation count. Refs find them; HEX is the digest of the address:
//
//	indexes/HEX     the document of an index; its signatures stand where those of all documents do
//	archives/HEX    the document of a bundle's manifest, of a repository at its commit too
//
// What isn't there is an *OfflineError. With a Fetcher what is kept is never used: a server that doesn't answer is an
// error.
package source
