// Package sbom writes SBOMs for bundles.
//
// It writes a bundle's SBOM in two formats, from the manifest alone: it reads no other file, looks nothing up, and
// uses the signed digests. The same manifest, time and program name give the same bytes.
//
// # How an SBOM goes through here
//
// CycloneDX and SPDX check the time (Options.time), describe the bundle, and pass entries to writer.list, which
// calls cdxRequire or spdxRequire for each requirement and cdxFile or spdxFile for each file. writer.end flushes.
//
// # Names
//
// A bundle is pkg:rye/ID@VERSION, with "+" in a version as %2B. A required bundle is pkg:rye/ID, because a range is
// not a version; the range is next to it. The digest of a file is its BLAKE3, which both formats support. The
// evidence that the manifest names is left out: an SBOM may be evidence itself and can't contain its own digest.
// For the same reason, the serial number, the namespace and the bundle's digest come from the manifest without its
// evidence (manifest.FileList.Subject), which is the subject of the SBOM. The serial number is a UUID of version 8
// (RFC 9562) of the first 16 bytes of that digest.
//
// # CycloneDX
//
// JSON of CycloneDX 1.6, media type application/vnd.cyclonedx+json, one component per line:
//
//	{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:…","version":1,"metadata":{…},"components":[
//	{"type":"file","bom-ref":"file:.ai/tools/acme/run.sh","name":".ai/tools/acme/run.sh","hashes":[{"alg":"BLAKE3","content":"a7fc…"}],"properties":[…]},
//	…
//	],"dependencies":[{"ref":"pkg:rye/acme/deploy@1.4.0","dependsOn":["pkg:rye/acme/base"]}]}
//
// The bundle is metadata.component, an application. Its files are components of the type file, with the properties
// rye:size, rye:mode (exec, or absent), and for items rye:ref and rye:version. A required bundle is a component
// without a version, with the property rye:requires, and the bundle depends on it.
//
// # SPDX
//
// JSON of SPDX 2.3, media type application/spdx+json, one package per line:
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
// Files are packages with the purpose FILE, because SPDX 2.3 requires a SHA-1 for each of its files (clause 8.4),
// which is not recorded, but none for packages. The bundle CONTAINS them and DEPENDS_ON its requirements.
//
// # Licences
//
// A licence is an SPDX expression if package licence parses it as one (Exact). Any other text stays as it is: a
// licence by name in CycloneDX, and LicenseRef-bundle with the text in SPDX. A missing licence is NOASSERTION.
package sbom
