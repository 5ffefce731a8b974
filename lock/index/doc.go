// Package index is the format of published indexes: lists of bundles with their versions and archives.
//
// How a call goes through here: Parse checks the document (package canon), splits off its signature lines and reads
// the entries. Append encodes an index and parses its own output as a check. Versions and Find look up entries, and
// Entry.At resolves the address of an archive.
//
// An index may be beside the archives or elsewhere. The package opens no file, fetches nothing and asks no policy.
//
// # The document
//
//	rye: "index/2"
//	name: "acme/bundles"
//	counter: 7
//	expires: "2027-11-20T12:00:00Z"
//	bundles:
//	  "acme/base@2.1.4": {manifest: "blake3:2d3a…", archive: "acme-base-2.1.4.tar.zst", size: 81234}
//	  "acme/web@1.0.0": {manifest: "blake3:77c1…", archive: "https://files.acme.example/web-1.0.0.tar.zst", size: 40960, requires: ["acme/base ^2.1", "acme/log *"]}
//
// It is a canonical document (package canon) in a file called index.yaml, with its signature lines at the top like
// other documents of package manifest. The domain of the signatures is rye/v2/index, and the name index:NAME, as in
// index:acme/bundles. They sign the document's id, which is the digest of the bytes below them. So the signatures
// of a truncated file are invalid, and the format needs no end mark.
//
//	name      the name of the list: an id by portable.CheckID. It must not change while the index is at one place
//	counter   the number of this issue, from 1, greater with each issue
//	expires   the moment from which this issue is no longer valid, YYYY-MM-DDTHH:MM:SSZ; optional
//	bundles   id "@" version → manifest (the id of the bundle's manifest), archive (its place, by package archive:
//	          a portable path relative to the index's directory, or an https address), size (of the archive, 1 byte
//	          to 8 GiB), requires (the required bundles, optional, sorted: an id, a space, and the range as in the
//	          manifest). A registry's index says more, all of it or nothing: digest (of the archive's bytes), by (the
//	          account that published the version), time, leaf (the number of its entry in the registry's log), and
//	          yanked (the number of the entry that yanked it; only if there is one)
//
// A registry has one index for each bundle. Its name is that of the registry, "/" and the bundle's id.
//
// A path never leads out of the directory of the index. Relative to an address it is resolved like a link, from the
// address of the index without its query. An empty index has no bundles.
//
// The public keys of its signers may be next to it, in index.yaml.keys, as package manifest writes them. They are
// information for a user who doesn't know the signers yet: rye never trusts them, and they are optional.
//
// # Trust
//
// The policy decides who may sign an index, as for all names: by a rule for index:acme/bundles, or by one without a
// kind. Such a rule extends no trust: a bundle is admitted by its own rule, whatever index lists it. An index can
// only hide versions. The counter and the journal prevent replaying an old issue; expires limits how long the last
// issue can be withheld.
//
// # Errors
//
// Any deviation is an error with its line: unsorted or duplicate entries, an archive path that isn't portable or
// leads above the index, a range that allows no version, a bundle that requires itself. An index has at most
// 262,144 entries in 64 MiB. An entry has at most 2,048 requirements, if they fit into a line of 64 KiB.
package index
