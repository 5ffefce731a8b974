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
//	rotations/HEX.yaml          what takes the log from a key to the next one, by the digest of the old key's text
//	log/checkpoint, log/tile/…  the log (package manifest/tlog)
//
// A private namespace is a registry with the same files below private/NAMESPACE/ of its host's address. They are there
// only for a token that may see them. Its name, and the origin of its log, is that of its host with
// /private/NAMESPACE behind it.
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
//
// # Rotations
//
// A log changes its key by a canonical document that the old and the new key have signed, in the domain
// rye/v2/rotation and for the name "rotation:registry:" and the registry's name:
//
//	# rye:signed:v2:…
//	# rye:signed:v2:…
//	rye: "registry-rotation/1"
//	name: "registry.example"
//	before: "registry.example/log+2f3a91c0+AVk7…"
//	log: "registry.example/log+51c3aa09+AbQ2…"
//	entries: 1234
//	root: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
//	time: "2026-11-20T12:00:00Z"
//
// entries and root are those of the last checkpoint of the old key, which fix the last leaf and all before it. The log
// goes on: its origin and its tree stay, and checkpoints are signed by the new key from then on.
//
// A client never takes a key from it by itself. To a client whose rye.yaml, or memory, has the old key, another key is
// an alarm. A rotation turns the alarm into a question to a person (View, alarmed), who compares it with what the host
// says and runs rye trust add --rotation. Follow then shows that the log continues, and remembers the key.
package registry
