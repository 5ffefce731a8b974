// Package file is the format of rye.lock: it reads, writes and compares locks.
//
// How a call goes through here: Parse checks the document (package canon) and reads its sections line by line
// (parse); for an invalid file, cause looks for conflict markers and CR LF. Append and Write encode a lock, and
// Append parses its own output as a check. Diff walks two locks section by section and returns their changes;
// Change.Weakens tells which of them need the user's consent.
//
// A lock names exactly the bytes that a project runs. Package lock decides what it contains, and the policy admits
// each item again at every use: a lock can only narrow.
//
// # The file
//
//	rye: "lock/2"
//	requires:
//	  "acme/base": {version: "^2.1", index: "https://bundles.acme.example/index.yaml"}
//	  "acme/notes": {version: "*", from: "../notes"}
//	bundles:
//	  "acme/base": {version: "2.1.4", manifest: "blake3:2d3a…", index: "https://bundles.acme.example/index.yaml"}
//	  "acme/notes": {version: "0.3.0", manifest: "blake3:77c1…", from: "../notes"}
//	pins:
//	  "tool:acme/base/fetch": {version: "1.2.0", digest: "blake3:9c5e…", from: "system:acme/base", signers: ["1eed…"], format: "v2", interface: "blake3:5f3d…", grants: "blake3:08b4…"}
//	  "tool:acme/shop/run": {version: "0.1.0", digest: "blake3:e0a9…", tree: "blake3:4a4f…", from: "project", path: "tools/acme/shop/run.py", size: 812, mode: "file", files: "blake3:c5d2…", signers: ["83561a…", "9f02b7…"], format: "v2", interface: "blake3:6e46…", grants: "blake3:08b4…"}
//	  "tool:rye/bash/bash": {version: "1.0.0", digest: "blake3:a7fc…", from: "system:rye/std", interface: "blake3:19aa…", grants: "blake3:c2d0…"}
//	toolchain:
//	  "python linux/amd64": {version: "3.13.1", digest: "blake3:b8d1…"}
//	artifacts:
//	  "npm:left-pad@1.3.0": {digest: "blake3:90b2…", source: "sha512:5cf8…", size: 3619}
//	  "pypi:requests@2.32.3:py3-none-any": {digest: "blake3:3c07…", source: "sha256:7075…", size: 64928}
//	definitions:
//	  "mcp:files/read": {digest: "blake3:d41f…"}
//	end:
//	  "rye.lock": {}
//
// It is a canonical document (package canon) without headers and without signature lines. Empty sections are absent,
// except the last.
//
//	requires     what rye.yaml requires: the range as it stands there, and from or index (package project)
//	bundles      id → version, manifest (the id of the bundle's manifest), and from or index: where it comes from, a
//	             repository of git at a commit
//	pins         ref → version (where the item has one), digest (of the file's raw bytes), tree (where the tool has
//	             other files), from (the label of the space: "project", "user", "system:" and a bundle), path, size
//	             and mode (of the file in its space, where it is from the project or the user: of a bundle's files
//	             its manifest tells), files (the tree in a store of all files of the tool's directory by their paths
//	             in the space, its own file and signature lines included, where it is from there and has a tree),
//	             signers (fingerprints, sorted, none twice, at most 16), format ("v1" or "v2", of their signatures),
//	             interface and grants (the hashes of package shape, where the item has any)
//	toolchain    name, a space, OS "/" architecture → version, digest. Several programs of one name and platform have
//	             ":" and the beginning of their digests behind the name
//	artifacts    "npm:" or "pypi:", name "@" version → digest (of the tarball or wheel), source ("sha256:" or
//	             "sha512:" and the digest that the registry names, which was asked for once), size. One version of a
//	             Python package has many wheels: behind the version stand ":" and what its file's name has between
//	             the version and ".whl"
//	definitions  name → digest (of the JCS form)
//	end          the one entry "rye.lock"
//
// A pin without signers belongs to an item that is admitted by its digest, or to one of system:rye/std, which never
// has signers. A pin has a format exactly if it has signers.
//
// The section "end" detects truncation: without it a file that was cut off at the end of a line would be a valid lock
// that lacks pins and signers. It is the same in every lock, so that it never causes a merge conflict.
//
// # Errors
//
// Any deviation is an error with its line: another order, a duplicate entry, CR LF, text after the end, a truncated
// file, an empty one. An invalid file never counts as an empty lock. A lock of a newer format is a
// *canon.VersionError. A file with git's conflict markers is a *MergeError, and Sides returns the two files to be
// merged. There are at most 262,144 entries in 128 MiB.
//
// Consistency of sections (a pin's bundle is among bundles, its version within requires) isn't checked here: a merge
// may break it, and package relock repairs it.
package file
