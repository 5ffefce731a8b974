// Package legacy is the reader and verifier of v1 bundles.
//
// Trees from before rye have bundles of their own kind, which are read here and never written:
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
// It stands at .ai/bundles/ID/manifest.yaml, and paths are relative to the directory that holds .ai. The signature is
// one of v1 (package sign, rule V1Tool): SHA-256 of everything but the line. The digest of a file is SHA-256 of its
// raw bytes, its own signature line included. inline_signed says that the text "rye:signed:" behind a comment mark is
// in its first 512 characters.
//
// # What is read
//
// YAML of at most 1 MiB with a bundle, which requires id and version, and at least one file. id, version and paths
// are held to today's rules (portable.CheckID, manifest.CheckVersion, portable.CheckSet); the other texts may say
// anything. item_type, which is documented for files and was never written, is passed over; other keys are refused,
// and so is every line beginning with "# rye:signed:" but the first: old readers drop such lines wherever they stand,
// and would read another text.
//
// # What it is worth
//
// Such a signature binds neither the name nor the purpose of what it is in, so it counts only where the policy
// accepts v1 for the name bundle:ID@VERSION, and the manifest that was signed says that this is what it is (Identify,
// for exam.Subject.V1). Verify looks at
//
//   - the manifest: its signature, and what policy says to it
//   - every file that it lists: that it is there, a file, and has the digest. Links are not followed. Sizes and modes
//     it doesn't know
//   - every item in .ai/directives, .ai/tools and .ai/knowledge that it calls inline_signed: its own signature. A v1
//     signature counts where policy accepts v1 for the item, because the manifest lists it. Files that only look
//     signed, as templates do, are covered by the list alone
//
// Files that it doesn't list are not looked for, as they never were. All that is wrong is reported. Once the manifest
// is admitted, Report.Listed says which bytes it lists, as an item with a v1 signature needs to be used, or put into
// a v2 bundle (bundle.Listing); List finds that out and no more.
//
// A Content is read without verification and can be shown as a v2 bundle. A v1 bundle is named by the BLAKE3 digest
// of its manifest without the signature line (Body).
package legacy
