// Package tlog is the log of a registry: which version of a bundle was published when, by which account, provable
// without the registry.
//
// How an entry goes through here: a registry adds it to its Tail, writes the Files that Add and Partial return, and
// signs a checkpoint of the root (Sign). A client opens the checkpoint with the log's Key and the witnesses of its
// policies (Open, Policy.Check), compares it with the last one that it remembers (Consistent), and proves that the
// entry is included (Prove). The Proof is one file, which Proof.Verify checks without the registry.
//
// The formats are those of C2SP over SHA-256: signed-note, tlog-checkpoint, tlog-tiles, tlog-cosignature, tlog-policy
// and tlog-proof. The tree and the notes are golang.org/x/mod's; the verifier of cosignatures is ours, because x/mod
// knows only the signatures of logs.
//
// # Entries
//
// An entry is a canonical document (package cas/canon) of at most 32 KiB, without signature lines: the log's own
// signature covers it. Which header lines it has depends on its kind:
//
//	rye: "log-entry/1"
//	kind: "publish"
//	bundle: "acme/base"
//	version: "2.1.4"
//	manifest: "blake3:623f…"
//	archive: "blake3:9e1c…"
//	archive-size: 81234
//	by: "ada"
//	time: "2026-11-20T12:00:00Z"
//
//	publish            bundle, version, manifest, archive, archive-size
//	yank, unpublish    bundle, version, manifest
//	owner              bundle (the namespace), document
//	trusted-publisher  bundle, document
//	advisory           bundle, document
//	release            section releases: at most 64 versions, which are published together or not at all
//
// document is the digest of what the entry says; the registry serves it beside the tiles. A release has one line for
// each version, sorted by its key:
//
//	releases:
//	  "acme/base@2.1.4": {manifest: "blake3:623f…", archive: "blake3:9e1c…", archive-size: 81234}
//
// # Files
//
// A log is a directory that any web server can serve:
//
//	checkpoint                    the newest checkpoint
//	tile/LEVEL/N[.p/WIDTH]        256 hashes, or WIDTH of them at the right edge
//	tile/entries/N[.p/WIDTH]      the entries of that tile of level 0, each after its length in 2 bytes
//
// N is written in groups of three digits, as in x001/x234/067. Nothing in these files is trusted before it leads to
// the root of a signed checkpoint.
package tlog
