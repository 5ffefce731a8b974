// Package provenance writes signed statements about how a bundle was made.
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
// It is written as JCS. The build type means that "rye bundle create" made the bundle by the recipe, from files
// that the bundle itself lists with their digests; so the statement has no resolved dependencies. Without a recipe,
// externalParameters is empty. The signer chooses the builder, a URI; the invocation and the times are optional.
//
// # Subject
//
// A statement that is evidence in the manifest can't name the manifest's id, which depends on the statement. Its
// subject is the manifest without evidence (manifest.FileList.Subject): Inside. A statement next to a manifest
// names its id: Beside. Without evidence both are the same. Either digest binds the id and version of the bundle
// and all of its files, because the manifest contains them. The name is only for people.
//
// Embed makes a manifest that names evidence. It is an unsigned document with another id and the same subject, so
// that existing statements and SBOMs about the subject stay valid. The bytes of evidence are a blob in the store,
// and in a project the file NAME next to manifest.yaml.
package provenance
