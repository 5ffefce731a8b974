// Package oci is a store of bundles in OCI registries and image layouts.
//
// A registry knows bytes by SHA-256 and believes all who may push. So what OCI says is checked, and nothing of it is
// identity: a bundle is its document, named by BLAKE3, and its objects are those that the document names.
//
//	place, err := oci.Open(ref, oci.Options{Transport: transport})
//	pushed, err := place.Push(ctx, oci.Content{Document: body, Objects: objects, Source: store}, "1.4.0")
//	image, err := place.Get(ctx, "1.4.0")
//	fresh, release, err := image.Objects(ctx, objects, store, spool)
//
// Package format says how a manifest and its layers are written, and package remote how a registry is asked.
//
// # How a push goes through here
//
// Place.Push reads what the tag names now (current). layers cuts the objects into layers by format.Row, format.Parts
// and format.Cutter, and three makers compress them; finish ends a layer, asks the registry for it by HEAD, and sends
// it if it is missing. all then sends the document and the manifest by its digest, attach sends the referrers, and
// putManifest sets the tag. Each request runs in again, which retries it.
//
// # How a pull goes through here
//
// Place.Get reads manifest and document. Image.Objects plans which layer holds which objects (plan), asks the store
// what it lacks (needed), and takes the spool. use fetches up to four layers ahead (fetch, rest), each into a file of
// the spool, and hashes them; unpacking.piece decompresses one after the other (format.Unpack) and puts the objects
// into a batch of the store, and commit makes the batch durable and removes the layers from the spool.
//
// # Referrers
//
// What is known about a bundle in addition to its document refers to the manifest as its subject: an image manifest
// whose artifactType says what it is, with the empty config and the bytes as layers. Signature lines are of type
// application/vnd.rye.signatures.v2, so that a later signature changes no digest; there may be any number, and all of
// them count. A registry without the Referrers API keeps the list under a tag, sha256-HEX, as OCI specifies.
//
// # What holds at every moment
//
// Push sends layers, then the document, the manifest by its digest, the referrers, and the tag last: a tag names what
// is complete. Push doesn't send what the registry has. Objects puts what arrives by layers, and leaves the layers
// that it has not used yet, whole or in part, in a directory from which the next call continues; what that directory
// holds is checked like the answer of a server.
//
// # What is believed
//
// Nothing without its digest. A server that sends too much, too little, too slowly or something else is left, and
// asked again twice where that may help. Credentials go to the registry alone, and to the token service that it
// names, never after a redirect to another host; plain HTTP only to this machine, or with Options.PlainHTTP.
package oci
