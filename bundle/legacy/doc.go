// Package legacy reads and verifies v1 bundles.
//
// Bundles from before rye have their own format, which this package reads and never writes:
//
//	# rye:signed:2026-02-15T05:39:45Z:8c32…:Wl0e…==:7f2d9ed0b71b8e5a
//	bundle:
//	  id: rye-core
//	  version: 0.1.0
//	  entrypoint: ''
//	  description: ''
//	  created_at: '2026-02-15T05:39:45Z'
//	  type: package
//	files:
//	  .ai/directives/rye/core/create_directive.md:
//	    sha256: 0b2f…
//	    inline_signed: true
//
// The file is .ai/bundles/ID/manifest.yaml, and paths are relative to the directory that holds .ai. The signature
// is one of v1 (package sign, rule V1Tool): SHA-256 of everything but the line. The digest of a file is SHA-256 of
// its raw bytes, including its own signature line. inline_signed means that the text "rye:signed:" follows a
// comment mark in the first 512 characters.
//
// # How a bundle goes through here
//
// Verify calls List, which reads and parses the manifest (read, Parse), hashes each file (Content.file) and asks
// the trust about the manifest (Identify). items then makes a view of the files and checks the signature of each
// signed item with an ai.Admitter.
//
// # Format
//
// The manifest is YAML of at most 1 MiB with a bundle, which requires id and version, and at least one file. id,
// version and paths follow the rules of v2 (portable.CheckID, manifest.CheckVersion, portable.CheckSet); the other
// texts are free. item_type, which was documented for files and never written, is ignored. Other keys are refused,
// and so is every line after the first that begins with "# rye:signed:": old readers drop such lines anywhere, and
// would read another text.
//
// # Trust
//
// Such a signature binds neither the name nor the purpose of its file. So it counts only if the policy accepts v1
// for the name bundle:ID@VERSION and the signed manifest has this id and version (Identify, for
// admission.Subject.V1). Verify checks
//
//   - the manifest: its signature and the policy
//   - every listed file: it exists, is a regular file and has the digest. Links are not followed. The manifest has
//     neither sizes nor modes
//   - every item in .ai/directives, .ai/tools and .ai/knowledge with inline_signed: its own signature. A v1 signature
//     counts if the policy accepts v1 for the item, because the manifest lists it. Files that only look signed, such
//     as templates, are covered by the list alone
//
// Verify ignores unlisted files, as v1 did, and reports all failures. Report.Listed returns which bytes an admitted
// manifest lists: an item with a v1 signature needs that to be used or to be put into a v2 bundle (bundle.Listing).
// List finds out no more than that.
//
// A Content is read without verification and can be shown as a v2 bundle. The name of a v1 bundle is the BLAKE3
// digest of its manifest without the signature line (Body).
package legacy
