// Package bundle answers: what belongs together?
//
// A bundle is a signed list of files (package manifest) and the bytes of these files. The list stands in a project as
// .ai/bundles/ID/manifest.yaml; its paths are relative to the directory that holds .ai. What is in .ai are items and
// the files beside them, all else are assets that come along. Which files there are to be, bundle.yaml says (package
// recipe). Package create makes the list of them, archive puts a bundle into one file, install gives it to a user.
//
//	report, err := bundle.Verify(ctx, bundle.InDir(dir, "acme/deploy"), bundle.VerifyOptions{Trust: trust,
//		Below: spaces})
//
// Items are seen as users of the bundle will see them: in a space of the system, over the bundles that it requires
// and the library, and without the project that they come from. A tool whose executor is only in the project has no
// chain here, and an extractor that isn't in the bundle adds no kind.
package bundle
