// Package format is the OCI format of a bundle: a manifest, a document, and the objects in layers.
//
// # The manifest
//
// An image manifest of OCI 1.1, as encoding/json writes it, without a space. Only these bytes are accepted: what is
// read and written again is the same.
//
//	schemaVersion  2
//	mediaType      application/vnd.oci.image.manifest.v1+json
//	artifactType   application/vnd.rye.bundle.v2
//	config         the document: application/vnd.rye.bundle.document.v2+yaml
//	layers         the objects: application/vnd.rye.bundle.objects.v2+zstd
//	annotations    what people look for, such as org.opencontainers.image.version; never believed
//
// Config and layers have the annotation "io.github.rye-build.blake3", the digest of the bytes, of a layer
// uncompressed; a layer also has "io.github.rye-build.size", how many these are, in decimal digits. A manifest has at
// most 4 MiB, a document 64 MiB.
//
// # Layers
//
// The objects stand one behind the other, without anything between: who has the document knows the order and the
// sizes. First come the small ones, up to 4 MiB, in the order of their digests; then the others, in the order of
// theirs. Each stands there once. The row is cut into layers of 4 to 16 MiB (the last of a kind, or of an object, may
// be shorter):
//
//   - Small objects are never cut. A layer ends behind an object of size s with which it has at least 4 MiB, if the
//     last 8 bytes of the digest, big-endian, are below s·2⁴², and before an object with which it would have more than
//     16 MiB.
//   - A large object begins a layer and ends one. Between, a layer ends behind the first byte, from the 4 MiB on, at
//     which the upper 22 bits of a gear hash over the object are 0, and at 16 MiB. The hash doubles and adds, for each
//     byte, the first 8 bytes, big-endian, of the digest of that one byte. It begins with 0 at each layer's byte
//     4 MiB - 64.
//
// So a change moves only boundaries beside it, and the other layers are as they were. Without an object there is one
// layer, of no bytes. Each layer is one zstd frame with a checksum, and a window of at most 8 MiB.
//
// # How layers are made and read
//
// Row sorts the objects, Parts groups the small ones into layers, and a Cutter finds the ends of layers in a large
// one. A Layer compresses what is written to it (Begin, Write, End) and returns its Descriptor, which
// Manifest.Append writes. ParseManifest reads the manifest and accepts no other spelling of it, and Unpack
// decompresses a layer again.
package format
