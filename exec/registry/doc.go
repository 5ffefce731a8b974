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
//	passkey/HEX             a passkey of an account, by the digest of its id
//	session/HEX             a person who has signed in with a browser, by the digest of the session's secret
//	link/HEX                a link with which a passkey is enrolled, by the digest of its secret
//	device/HEX              a machine that asks for a token (rye login), by the digest of its device code
//	code/HEX                the device for a code that a person types, by the digest of the code
//	used/HEX                a passkey's challenge, or a pipeline's token by the digest of its issuer and id, that has
//	                        counted
//	tally/HEX               how often an account or an address has done something lately
//	key/ceremonies          the key that seals challenges (ceremony)
//	space/NAMESPACE         a namespace and its owners
//	version/ID@VERSION      a published version
//	archive/HEX             the version that an archive belongs to
//	log/NAME                the state of a log: how many entries it has, and how many of them its files show
//	entry/NAME/NUMBER       an entry of a log, numbered in 12 digits
//	private/KIND/…          the rows version, archive and touched of private namespaces
//	private/advisory/NAMESPACE/ID   their advisories
//	publisher/BUNDLE@ID     the binding of a pipeline to a bundle
//	staged/ID               what waits for approvals
//	touched/ID              the last entry that changed the index of a bundle
//	advisory/ID             an advisory, with the newest text of its document
//	advisories/NAME         the state of the list of a log's advisories
//	rotation/FILE           the document by which the log has replaced a key
//	lease/flush             the process that writes the log's files, and until when
//	halt/NAME               why a log signs nothing: its rows come from a backup
//	restore/unfinished      a restore is under way, and no registry may be opened
//	audit/NUMBER            what happened to an account or a token, numbered in 12 digits; the row audit has the next
//
// The log of the public namespaces has the name "public", that of a private one "private/NAMESPACE".
//
// # Private namespaces
//
// A private namespace has a log of its own, whose files are a registry of its own to clients, below
// private/NAMESPACE/. Its keys are derived from the key of the indexes (logs.go): every process that serves the
// registry has them. Its versions have rows and files of their own, so that what reads the public ones can't show
// them. Who may not see it is answered as if no account owned the name, after the same work (spaceFor); where that
// can't be, because a name is to be claimed, it is reserved.
//
// A namespace that becomes public has its versions published anew in the public log (visibility.go). The archives are
// copied by the flush that shows the new entries: nothing is public before the transaction that says so.
//
// # Files
//
// The files (package blobs) can be made again from the rows; archives and documents are the only ones that can't.
// Archives of staged versions are in staged/, which no one but the owners sees.
//
// # Rotations
//
// Rotate makes the document by which another key takes the log over (package lock/registry), and the next Open with
// that key completes it: describe finds the files of the key before, and takeOver signs them anew.
// Private logs go on with their keys.
//
// # Backup and restore
//
// Backup copies the rows of one state, and then the archives that they name (backup.go). Restore makes a registry from
// that (restore.go). The log that it continues may have grown after the backup: if it signed other entries in their
// place, it would show two histories. So a restored log is halted (halt.go): it shows the checkpoint of the backup,
// and takes no entry until all witnesses say that they know no newer one, or the host shows the newest one of a mirror
// or a client. What any client shows can only stop the log: a checkpoint that it has signed and doesn't continue. Each
// private log is halted for itself, and has no witnesses.
package registry
