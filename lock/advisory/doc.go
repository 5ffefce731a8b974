// Package advisory is the format of a registry's advisories: what has turned out about versions of a bundle after they
// were published.
//
// How an advisory goes through here: a registry makes one of a Draft (ParseDraft) or of its own words, and writes it
// with Append. Its list names every advisory (AppendList). A client reads the list (ParseList), then the advisories
// that the list names by their digests (Parse), and asks each which versions it covers (Covers).
//
// # Advisories
//
// An advisory is a document in OSV's format 1.7, about versions of one bundle: JSON in the canonical form of RFC 8785
// (package jcs) of at most 64 KiB, here with line breaks.
//
//	{"affected":[{
//	   "package":{"ecosystem":"rye","name":"acme/base"},
//	   "ranges":[{"events":[{"introduced":"1.2.0"},{"fixed":"1.4.2"}],"type":"SEMVER"}],
//	   "versions":["1.0.3"]}],
//	 "aliases":["CVE-2026-12345"],
//	 "database_specific":{"kind":"vulnerable","severity":"high"},
//	 "details":"Templates from a file aren't escaped.",
//	 "id":"RYE-2026-0001",
//	 "modified":"2026-11-20T12:00:00Z",
//	 "published":"2026-11-20T12:00:00Z",
//	 "references":[{"type":"WEB","url":"https://acme.example/2026-1"}],
//	 "schema_version":"1.7.0",
//	 "summary":"Templates run what they read",
//	 "withdrawn":"2026-11-21T12:00:00Z"}
//
//	affected           one entry with the package, and ranges, versions or both
//	ranges             one of type SEMVER, whose events alternate: introduced ("0" is before every version), then
//	                   fixed (the first version that isn't affected) or last_affected; the last may stay open
//	versions           single versions, sorted by their bytes
//	database_specific  kind (withdrawn: its publisher or the registry took it back; malware; vulnerable), and
//	                   severity (low, medium, high, critical)
//	withdrawn          since when the advisory itself doesn't count
//
// aliases, details, references, ranges, versions and withdrawn may be absent, and are never empty. Times are in UTC
// and whole seconds. No other member is allowed, since a reader that skips what it doesn't know may skip what matters.
//
// # Lists
//
// A registry's list has one line for each advisory, withdrawn ones too, with its newest document. It is a canonical
// document (package canon), signed by the key that signs the registry's indexes, in the domain rye/v2/advisories and
// for the name "advisories:" and the registry's name:
//
//	# rye:signed:v2:…
//	rye: "advisories/1"
//	name: "registry.example"
//	counter: 7
//	issued: "2026-11-20T12:00:00Z"
//	advisories:
//	  "RYE-2026-0001": {bundle: "acme/base", document: "blake3:d2f0…", leaf: 12, modified: "2026-11-20T12:00:00Z"}
//
// leaf is the number of the log's entry with this bundle and document. A registry issues the list again at intervals,
// with a higher counter, so that its age tells how long ago the registry has vouched for it. The counter is at least
// the time of issue in seconds since 1970.
package advisory
