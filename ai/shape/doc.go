// Package shape is the comparison of two states of a tool: its interface and its grants.
//
// # Hashes
//
// The interface hash is the BLAKE3 of the canonical JSON (package jcs) of the three schemas, those that are absent
// left out:
//
//	{"error":{…},"input":{…},"output":{…}}
//
// The grants hash is the same for an item's permissions and limits:
//
//	{"limits":{"turns":4},"network":["api.acme.example"],"permissions":["execute:tool:acme/fetch"],"risk":"read","secrets":["acme-token"]}
//
// and, for an item that uses files of the project, also "files":{"read":["."],"write":["docs"]}. Permissions are in
// the canonical form of package capability, and they, secrets, hosts and paths are sorted, each once; a path below
// another of its list is left out. Empty values are left out: an item without grants has the hash of {}.
//
// # Differences
//
// Diff compares two states of one tool. It returns each change with its place, a JSON pointer into {"input",
// "output", "error", "grants", "description", "tags", "examples"}, the old and the new value, and a class:
//
//	breaking    a caller that relied on the old state fails, or the item asks for more than was accepted
//	warning     needs a look, because a strict caller may fail
//	compatible  no caller fails
//	info        says nothing to programs
//
// An input schema may widen: it must still accept every value that it accepted. An output or error schema may narrow:
// every value that comes out must be one that could come out before. Schemas are JSON Schema, of any draft since 4,
// with "nullable"; a missing schema allows everything. The kind of a change is the keyword and whether the new state
// allows less, more, or can't be compared: "enum_narrowed", "minimum_widened", "pattern_changed". These have kinds of
// their own:
//
//	kind                input                            output           error
//	required_added      breaking                         compatible       compatible
//	required_removed    compatible                       breaking         breaking
//	property_added      compatible                       compatible (1)   compatible (1)
//	property_removed    compatible, or breaking (2)      breaking         warning
//	default_changed, title_changed, description_changed, examples_changed and the like: info
//
// (1) a warning if the old schema allowed no additional properties, breaking if those that it allowed exclude the new
// one (2) breaking if the new schema doesn't allow it as an additional property
//
// Diff assumes that callers send what the old input schema declares: it ignores values under a name that the old
// schema neither declared nor constrained when the new one declares that name. Apart from that, a change is proven
// compatible, or reported as breaking or as a warning. "undecided" is breaking: a reference that doesn't lead to a
// schema of the same document, and schemas that are too deep or too large to compare or aren't JSON. Unions are
// compared branch by branch. Any change under an unknown keyword is breaking.
//
// The rest:
//
//	tool_removed                                       breaking
//	tool_added                                         compatible; installing it leaves it disabled
//	risk_raised                                        breaking: read < write < infra < money < destructive, and
//	                                                   what is none of these is as high as the last
//	risk_lowered                                       warning
//	permission_added, secret_added, network_widened, files_widened    breaking
//	permission_removed, secret_removed, network_narrowed, files_narrowed   compatible
//	limit_raised, limit_changed                        breaking
//	limit_added, limit_removed                         breaking: the default is unknown here and may be lower
//	limit_lowered                                      compatible
//	description_changed, tags_changed, examples_changed    info
//
// A permission is added only if no old one covers it. Files are wider if the item reads or writes a path that neither
// an old path nor a directory above it covers. Writing a path includes reading it, but writing "." doesn't include
// reading the paths that Writable excludes. Items are sorted by class, place and kind.
//
// # How a call goes through here
//
// Diff hashes both interfaces with Interface.Hash. For each of the three schemas, diffSchemas makes a comparer whose
// compare resolves references and compares keywords by their meaning (typesAndValues, numbers, objects, arrays,
// union). Widened compares the grants. Diff sorts the items and adds a summary.
package shape
