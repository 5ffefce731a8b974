// Package oci keeps bundles in OCI registries and image layouts.
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
// # Referrers
//
// What is known about a bundle beside its document refers to the manifest as its subject: an image manifest whose
// artifactType says what it is, with the empty config and the bytes as layers. Signature lines are of type
// application/vnd.rye.signatures.v2, so that who signs later changes no digest; there may be any number, and they
// count together. A registry without the Referrers API keeps the list under a tag, sha256-HEX, as OCI has it.
//
// # What holds at every moment
//
// Push sends layers, then the document, the manifest by its digest, the referrers, and the tag last: a tag names what
// is complete. What the registry has already isn't sent again. Objects puts what arrives by layers, and leaves layers
// that it has not used yet, whole or in part, in a directory, from which the next call goes on; what that holds is
// checked like what comes from a server.
//
// # What is believed
//
// Nothing without its digest. A server that sends too much, too little, too slowly or something else is left, and
// asked again twice where that may help. Credentials go to the registry alone, and to the token service that it names,
// never after a redirect to another host; plain HTTP only to this machine, or with Options.PlainHTTP.
package oci
