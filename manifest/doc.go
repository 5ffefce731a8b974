// Package manifest reads and writes the signed documents: lists of files, lists of revocations, rotations of keys.
//
// Package key has the keys, package sign single signature lines, package policy decides whether signatures are
// enough, package rollback remembers seen documents, and package attest makes statements about documents in a form
// for other programs.
//
// # How a call goes through here
//
// A read: ReadFileList scans the document (newScan, which hashes it), reads the head, then each file, and calls visit;
// Document.Check then verifies the signatures. A write: AppendFileList encodes the document and reads it back; Sign
// adds a signature, and Join puts signatures and body together.
//
// # Documents
//
// A document is a canonical document (package canon). Its id is the digest of its bytes without signature lines, so
// that signing changes no id. A store has it under its id without the lines, and the lines alone in a file or
// object named by the id and ".sig". A file of its own, such as manifest.yaml, has the two joined:
//
//	# rye:signed:v2:2026-11-20T12:00:00Z:2373fe…:BlVwi9…:1eed29…
//	# rye:signed:v2:2026-11-20T12:00:00Z:2373fe…:cbK5qH…:83561a…
//	rye: "manifest/2"
//	id: "acme/deploy"
//	…
//
// The lines are those of package sign in the style Hash, without a tree, each with the document's id, sorted by
// fingerprint, one of each key, at most 16. Readers refuse anything else: other comments, a document without LF at
// the end, and everything that package canon refuses. A signature vouches for the id under a domain and a name, and
// the document contains the name:
//
//	document        domain               name
//	manifest/2      rye/v2/manifest      bundle:<id>@<version>
//	revocations/2   rye/v2/revocations   revocations:<name>
//	rotation/2      rye/v2/rotation      rotation:<rule>
//
// Document.Merge unites sets of signatures for one document.
//
// Times are YYYY-MM-DDTHH:MM:SSZ. Text for people is one line without control characters, characters that change
// the direction of writing, or space around it.
//
// # File lists
//
//	rye: "manifest/2"
//	id: "acme/deploy"
//	version: "1.4.0"
//	description: "Deploys — with care"
//	license: "MIT"
//	entrypoint: "directive:acme/deploy"
//	expires: "2027-11-20T12:00:00Z"
//	requires:
//	  "acme/base": {version: "^2.0.0"}
//	files:
//	  ".ai/directives/acme/deploy.md": {digest: "blake3:e0a9…", size: 6, mode: "file", ref: "directive:acme/deploy"}
//	  ".ai/tools/acme/run.sh": {digest: "blake3:a7fc…", size: 3, mode: "exec", ref: "tool:acme/run", version: "1.0.0"}
//	  "README.md": {digest: "blake3:4a4f…", size: 6, mode: "file"}
//	evidence:
//	  "sbom.cdx.json": {digest: "blake3:6e46…", size: 2, type: "application/vnd.cyclonedx+json"}
//
// A plugin (package plugin of room bundle) has the header plugin: "1.0.0" behind expires: its items lie in another
// directory than .ai.
//
// id, version and files are required; the other headers and sections are absent when they are empty. The version
// follows semver 2.0. The ids of requires are bundles, and their version is a range, which package ai reads. The
// paths of files can be in one tree on every system (portable.CheckSet). A mode is file or exec. A ref is a kind,
// ":" and an id; no two files have the same ref, and only a file with a ref has a version. The names of evidence
// are single segments. A list has at most 2^20 entries in 256 MiB, and no file has more than 2^40 bytes.
//
// Evidence can't name the id of the document that names it. It names the document's subject instead: the digest of
// the bytes before the line "evidence:", which is the document without evidence, or the id if it has none.
// Statements outside the document name its id.
//
// # Revocations
//
//	rye: "revocations/2"
//	name: "acme"
//	counter: 7
//	issued: "2026-11-20T12:00:00Z"
//	expires: "2026-12-20T12:00:00Z"
//	revoked:
//	  "blake3:4852…": {date: "2026-10-20T12:00:00Z"}
//	  "key:9c38…": {date: "2026-11-20T12:00:00Z", reason: "laptop stolen"}
//
// Each issue has the whole list, which may be empty, and a counter that starts at 1 and grows with each issue. Keys
// and digests are written as in policies: see policy.ParseRevocation.
//
// # Rotations
//
//	rye: "rotation/2"
//	rule: "tool:acme/**"
//	before: ["1eed29…", "83561a…"]
//	retire: "83561a…"
//	key: "7UkoxijRwsbq6QM4kFmVYSlZJzpcY_k2NsFGFKyHN9E"
//	name: "acme-2027"
//	owner: "Acme Ltd"
//	not-before: "2026-11-20T12:00:00Z"
//	key-expires: "2028-11-20T12:00:00Z"
//	expires: "2026-12-20T12:00:00Z"
//
// The rotation applies to the rule of a policy with this glob and exactly the keys of before (fingerprints,
// sorted). There the key replaces the one named by retire. The policy gets its name, owner, not-before and
// key-expires from the document. The offer ends at expires. No step can be skipped or swapped, because each names
// all keys that it starts from.
//
// # Signers
//
//	rye: "signers/2"
//	keys:
//	  "9c38…": {public: "7UkoxijRwsbq6QM4kFmVYSlZJzpcY_k2NsFGFKyHN9E", owner: "Acme Ltd"}
//
// The public keys of those who signed what a project's lock pins, by fingerprint, with the owners that the author's
// policy names. It isn't signed and gives no trust: it is what a clone's user is asked about.
package manifest
