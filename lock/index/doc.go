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
// It is a canonical document (package canon) in a file called index.yaml, with its signature lines at the top as
// package manifest has them for documents. They are made in the domain rye/v2/index for the name index:NAME, as in
// index:acme/bundles, and vouch for the document's id, the digest of the bytes below them. So the signatures of a
// truncated file are invalid, and the format needs no end mark.
//
//	name      what the list is called: an id by portable.CheckID, which it keeps for as long as it stands in one
//	          place
//	counter   which issue this is, from 1, and greater with each
//	expires   the moment from which this issue counts no more, YYYY-MM-DDTHH:MM:SSZ; may be missing
//	bundles   id "@" version → manifest (the id of the bundle's manifest), archive (where it is, by package archive:
//	          a portable path that begins where the index stands, or an https address), size (of the archive, 1 byte
//	          to 8 GiB), requires (the bundles that it needs, if any, sorted: an id, a space, and the range as it
//	          stands in the manifest)
//
// A path never leads out of the directory of the index, and below an address it is resolved as links are, by the
// address that the index was asked for at, without its query. An index of nothing is one without bundles.
//
// The public keys of its signers may stand beside it, in index.yaml.keys, as package manifest writes them. They are
// information for a user who doesn't know the signers yet: rye never trusts them, and they are optional.
//
// # Trust
//
// The policy decides who may sign an index, as for all names: by a rule over index:acme/bundles, or by one without a
// kind. That extends no trust: the rule for a bundle admits it, whatever index lists it. An index can only hide
// versions. The counter and the journal prevent replaying an old issue; expires limits how long the last issue can be
// withheld.
//
// # Errors
//
// Any deviation is an error with its line: unsorted or duplicate entries, an archive path that isn't portable or
// leads above the index, a range that allows no version, a bundle that requires itself. There are at most 262,144
// entries in 64 MiB, of each at most 2,048 requirements, as far as a line of 64 KiB has room.
package index
