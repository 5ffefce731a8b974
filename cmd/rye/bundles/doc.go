// Package bundles has the commands "rye bundle …": create, verify, inspect, list, diff, cosign, export, index,
// import, install, rollback, remove, sbom and attest.
//
// How a bundle goes through here: paths.OpenWorkspace opens the project, the store and the user space, and its Find
// resolves the argument BUNDLE to a find.Found. spaces.SignerFlags or spaces.OpenVouching decides which signatures
// count. BundleVerifyRun.verify then calls bundle.Verify and turns the report into a BundleReport; import and
// install call take, which verifies a bundle and imports it into the store. BundleCreateRun.Run works with a
// maker: begin opens what it needs, signItems signs items first, and make calls create.Create and prints every
// problem (refused).
package bundles
