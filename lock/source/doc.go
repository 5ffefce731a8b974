// Package source is the set of places that a project's bundles come from: directories, archives, indexes, git
// repositories and registries.
//
// How a call goes through here: Versions reads a bundle's source (head, index, tagged) and returns candidates for the
// resolver. Manifest pins the chosen version to a commit or digest (pin) and asks the journal. Bring returns a bundle
// that the store already has (have), or else fetches it from its archive, directory, repository or registry (fetch),
// checks it against the request and the index (fits), verifies it and names it in the store. An archive that another
// program made is unpacked (packed), and then read as the directory of a plugin. A plugin without a manifest (plain)
// gets the manifest that rye computes.
//
// It knows the sources that rye.yaml names (package project), and reads each once for a command:
//
//	sources := source.New(source.Options{Dir: dir, Requires: p.Requires, Fetch: client, Store: store,
//		Verify: verify, Journal: journal, Now: now})
//	found, err := resolve.Resolve(ctx, sources, request)
//	id, from, err := sources.Manifest(ctx, "acme/base", "2.1.4")
//	b, err := sources.Bring(ctx, file.Bundle{ID: "acme/base", Version: "2.1.4", Manifest: id, Source: from}, below)
//
// # Sources
//
//	from    a directory   the project that the bundle was made in: .ai/bundles/ID/manifest.yaml, and the files beside
//	        a file        an archive (package archive), or a zip or tar.gz of a plugin (package foreign)
//	        an address    the same, by https
//	        a repository  a project at a commit, by package git: what its manifest lists, and nothing else
//	        an image a repository of a registry, or a directory in OCI's layout, by package oci. Without a tag it has
//	        many
//	                      versions, those of its tags, and what one requires is asked when it matters
//	index   a directory   index.yaml there (package index), and archives where that says
//	        an address    an index, by https, and archives where that says
//
// A bundle that rye.yaml names comes from the source named there and from no other. A bundle that only other bundles
// require comes from the indexes that rye.yaml names. A bundle in two of them is an error (AMBIGUOUS), whatever the
// versions: each index could otherwise replace a bundle of the other. Naming the bundle in rye.yaml decides.
//
// Each command resolves a branch or tag of a repository to its current commit once, and the tag of an image to its
// digest; the lock names the source with that commit or digest. Closing the sources removes fetched git data and
// unpacked archives, unless they share the archives of a command.
//
// # Trust
//
// Only documents signed by the policy's keys are trusted. An index is checked by name (index:NAME), expiry and
// journal; then it decides which versions exist, where they are, and what they require. The policy must admit a
// bundle's manifest before its requirements count. A fetched bundle must have the requested manifest, match the
// manifest and the index (INTEGRITY_FAILED), and pass everything that package bundle verifies; before that, nothing
// in the store refers to it. An archive must have the size given in the index.
//
// The journal (package rollback) remembers, under the address or the directory of an index, its issue, which never
// goes back, and its name, which never changes there (ROLLBACK_DETECTED); and under the address of an index or an
// archive, a repository at its commit, or the directory of an index, which manifest each version has that was brought
// from there; under the repository of an image, too, and under a tag that isn't a version, the version it was at
// (package remote). It is checked when a version is named, and when it is brought. A directory or file of "from" is
// not remembered: people make the same version many times there, and rye.lock pins one of them.
//
// # Offline
//
// Without a Fetcher nothing is fetched, and nothing of a repository without a git.Client. The store keeps the last
// good index and the last bundle of each address. They are checked as if they had just arrived, so that expiry and
// revocation count. Refs find them; HEX is the digest of the address:
//
//	indexes/HEX     the document of an index; its signatures stand where those of all documents do
//	archives/HEX    the document of a bundle's manifest, of a repository at its commit too
//	fetched/HEX     the last good index of a bundle in a registry, or checkpoint of its log: a blob with its ETag, a
//	                line feed, and its text
//
// That a registry's log has a version is shown offline by the proof that is kept with the bundle (package
// bundle/install), or by the lock: its proof was checked when it was locked.
//
// A missing object is an *OfflineError. With a Fetcher the kept copies are used only if a registry says, to a
// conditional request, that they are what it has: an unreachable server is an error.
package source
