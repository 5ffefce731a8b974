// Package index reads and writes lists of bundles: their versions, and where each is.
//
// An index is a published list, beside the archives of bundles or far from them. The package reads and
// writes it; it opens no file, fetches nothing and asks no policy.
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
// index:acme/bundles, and vouch for the document's id, the digest of the bytes below them. So a file that was cut off
// is none that anybody signed, and needs no mark at its end.
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
// information for a reader who doesn't know the signers yet: nothing trusts them, and an index without them is as
// good.
//
// # What it is worth
//
// Who may sign an index a policy says, as it does of all names: by a rule over index:acme/bundles, or by one without
// a kind. That extends no trust: a bundle that comes from an index is admitted by the rule for that bundle,
// whatever index lists it. An index can only hide versions. Its counter, and what was seen of it
// before, keep that from being done with an old issue; expires bounds for how long the last one may be held back.
//
// # What is refused
//
// Everything that isn't exactly this, with its line: entries out of order or twice, an archive that is no portable
// path or above the index, a range that allows nothing, a bundle that requires itself. There are at most 262,144
// entries in 64 MiB, of each at most 2,048 requirements, as far as a line of 64 KiB has room.
package index
