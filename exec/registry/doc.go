// Package registry is the service that a team publishes bundles to: it checks what is published, records who published
// what in a log, and keeps the static files that clients read (package lock/registry).
//
// How a publish goes through here: Publish spools the archive and verifies it whole (inspect), stores it under its
// digest, and writes the row of the version and the log's entry in one transaction (admit, appendEntry). Then flush
// writes the log's tiles, the checkpoint, the proofs and the indexes of the bundles that the new entries name. A
// version is visible when its index names it; whatever stops a publish before that is made good by the next flush.
//
// It decides everything and speaks no protocol: package exec/registry/door answers the requests of clients, and
// cmd/ryed wires both to their stores.
//
// # Rows
//
// Everything that changes is a row (package rows), whose value is a JSON object:
//
//	account/NAME            an account
//	token/HEX               a token by the digest of its secret
//	space/NAMESPACE         a namespace and its owners
//	version/ID@VERSION      a published version
//	archive/HEX             the version that an archive belongs to
//	log/NAME                the state of a log: how many entries it has, and how many of them its files show
//	entry/NAME/NUMBER       an entry of a log, numbered in 12 digits
//	publisher/BUNDLE@ID     the binding of a pipeline to a bundle
//	used/HEX                a token of a pipeline that was used, by the digest of its issuer and id
//	staged/ID               what waits for approvals
//	touched/ID              the last entry that changed the index of a bundle
//	lease/flush             the process that writes the log's files, and until when
//
// The log of the public namespaces has the name "public".
//
// # Files
//
// The files (package blobs) can be made again from the rows and the archives; archives are the only ones that can't.
// Those of staged versions are in staged/, which no one but the owners sees.
package registry
