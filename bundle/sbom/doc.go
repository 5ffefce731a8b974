// Package sbom is the writer of SBOMs for bundles.
//
// It writes a bundle's SBOM in two formats, from the manifest alone: it reads no file, looks nothing up, and uses the
// signed digests. So the same manifest, time and name of the program that wrote it give the same bytes.
//
// # What is named how
//
// A bundle is pkg:rye/ID@VERSION, with "+" in a version as %2B; one that is required is pkg:rye/ID, because a range
// is no version, and the range stands beside it. The digest of a file is its BLAKE3, which both formats know. What
// evidence the manifest names is left out: a list of parts may be evidence itself, and can't have its own digest in
// it. For the same reason the serial number and the namespace of a document come from the manifest without its
// evidence (manifest.FileList.Subject), which is what a list of parts is about, and its digest is the one that is
// given for the bundle. The serial number is a UUID of version 8 (RFC 9562) of the first 16 bytes of that digest.
//
// # CycloneDX
//
// JSON of CycloneDX 1.6, media type application/vnd.cyclonedx+json, a component a line:
//
//	{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:…","version":1,"metadata":{…},"components":[
//	{"type":"file","bom-ref":"file:.ai/tools/acme/run.sh","name":".ai/tools/acme/run.sh","hashes":[{"alg":"BLAKE3","content":"a7fc…"}],"properties":[…]},
//	…
//	],"dependencies":[{"ref":"pkg:rye/acme/deploy@1.4.0","dependsOn":["pkg:rye/acme/base"]}]}
//
// The bundle is metadata.component, an application. Its files are components of the type file, with the properties
// rye:size, rye:mode (exec, or absent), and of items rye:ref and rye:version. What is required is a component without
// a version, with the property rye:requires, and the bundle depends on it.
//
// # SPDX
//
// JSON of SPDX 2.3, media type application/spdx+json, a package a line:
//
//	{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"SPDXRef-DOCUMENT",…,"packages":[
//	{"SPDXID":"SPDXRef-Bundle","name":"acme/deploy","versionInfo":"1.4.0",…},
//	{"SPDXID":"SPDXRef-File-1","name":".ai/tools/acme/run.sh","primaryPackagePurpose":"FILE",…},
//	…
//	],"relationships":[
//	{"spdxElementId":"SPDXRef-DOCUMENT","relationshipType":"DESCRIBES","relatedSpdxElement":"SPDXRef-Bundle"},
//	…
//	]}
//
// Files stand as packages with the purpose FILE. What SPDX 2.3 calls files must have a SHA-1 each (its clause 8.4),
// which not recorded; packages are asked for none. The bundle CONTAINS them and DEPENDS_ON what it requires.
//
// # Licences
//
// A licence is an expression of SPDX if package licence reads it as one (Exact). Every other text stays what it is: a
// licence by name in CycloneDX, and in SPDX LicenseRef-bundle with the text. No licence is NOASSERTION.
package sbom
