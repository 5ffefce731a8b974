// Package provenance is the writer of signed statements about how a bundle was made.
//
// A statement is an in-toto Statement whose predicate is SLSA provenance v1, in a DSSE envelope (package attest):
//
//	{
//	  "_type": "https://in-toto.io/Statement/v1",
//	  "subject": [{"name": "bundle:acme/deploy@1.4.0", "digest": {"blake3": "51c1…"}}],
//	  "predicateType": "https://slsa.dev/provenance/v1",
//	  "predicate": {
//	    "buildDefinition": {
//	      "buildType": "https://github.com/rye-build/rye/bundle/v1",
//	      "externalParameters": {"recipe": {"name": "bundle.yaml", "digest": {"blake3": "f08a…"}}}
//	    },
//	    "runDetails": {
//	      "builder": {"id": "https://ci.example.com/release"},
//	      "metadata": {"invocationId": "1234", "startedOn": "2026-11-20T12:00:00Z", "finishedOn":
//	      "2026-11-20T12:00:05Z"}
//	    }
//	  }
//	}
//
// It is written as JCS. The build type means: the bundle is what "rye bundle create" makes by the recipe, from files
// that the bundle lists itself, each with its digest; so there are no resolved dependencies to name. Without a
// recipe, as where only an id was given, externalParameters is empty. The builder is a URI chosen by the signer; the
// invocation and the times are left out where nothing is said.
//
// # What it is about
//
// A statement that is evidence in the manifest can't name the manifest's id, which depends on the statement. Its
// subject is the manifest without evidence (manifest.FileList.Subject): Inside. One that travels beside a manifest
// names its id: Beside. Where there is no evidence both are the same. With either digest come the id and version of
// the bundle and all of its files, since the manifest says them. The name is for people.
//
// Embed makes the manifest that names evidence. It is an unsigned document with another id, and with the same
// subject, so that statements and lists of parts that are about it still are. The bytes of evidence are a blob in a
// store, and in a project the file NAME beside manifest.yaml.
package provenance
