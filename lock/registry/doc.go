// Package registry is the client's half of a registry: where its files are, what they say, and what of it a client
// believes.
//
// How a version goes through here: Client.Index reads the checkpoint of the log and the index of a bundle, compares
// both with what this user saw before (Memory), and asks the witness policies. Client.Prove shows that the log has the
// entry that the index claims, and returns the proof. Client.Archive reads the archive and compares its digest. A file
// that was kept is asked for by one conditional request (Keeper).
//
// Without the registry, Logs.Check shows by a proof that its log has a version; Logs.Take also remembers the proof's
// checkpoint.
//
// How advisories go through here: Kept.Update asks Client.Advisories for the newest list, which must be signed,
// continue the last one, and name only what the log has. It keeps the list with its documents. Kept.Load returns them
// again, and Feed.Of the advisories about one bundle.
//
// # Files
//
// What a client needs is static. Any web server can serve a copy, and clients verify it the same way:
//
//	registry.yaml               the registry's name and public keys
//	index/ID.yaml               the versions of one bundle (package lock/index), signed by the index key
//	archives/HEX                an archive by its digest
//	proofs/HEX.tlog-proof       the proof that the log has the version of that archive
//	advisories.yaml             the registry's advisories (package lock/advisory), signed by the index key
//	documents/HEX               what an owner, trusted-publisher or advisory entry of the log says
//	log/checkpoint, log/tile/…  the log (package manifest/tlog)
//
// registry.yaml is a canonical document (package cas/canon):
//
//	rye: "registry/1"
//	name: "registry.example"
//	log: "registry.example/log+2f3a91c0+AVk7…"
//	key: "hQd8…"
//
// name is the registry's name in the names of its indexes, log is the key of the log in the form of signed notes, and
// key is the public key that signs indexes. Nothing vouches for the document: a client shows it once, as it does with
// the keys of a stranger (decision 43), and from then on the two keys stand in rye.yaml.
package registry
