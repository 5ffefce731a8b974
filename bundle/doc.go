// Package bundle verifies bundles.
//
// A bundle is a signed list of files (package manifest) and the bytes of these files. A project has the list as
// .ai/bundles/ID/manifest.yaml, with paths relative to the directory that holds .ai. The files in .ai are items and
// their other files; files elsewhere are assets. bundle.yaml selects the files (package recipe). Package create makes
// the list, archive packs a bundle into one file, install installs it for a user.
//
//	report, err := bundle.Verify(ctx, bundle.InDir(dir, "acme/deploy"), bundle.VerifyOptions{Trust: trust,
//		Below: spaces})
//
// Verify sees items as users of the bundle will see them: in a space of the system, above the required bundles and
// the library, and without the project that they come from. A tool whose executor is only in the project has no chain
// here, and an extractor outside the bundle adds no kind.
//
// # How a verify goes through here
//
// Verify opens the Source, which returns a look: dirLook, spool (an archive) or given (a store). manifest asks the
// trust about the manifest's signatures. newItems makes a View of the listed files. look.each calls items.file for
// each file, which checks its bytes with look.check and, if it is an item, its signature and tree with ai.Admitter.
// extra, places, evidence and statements add the remaining failures to the Report.
package bundle
