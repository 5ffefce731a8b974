// Package shape answers: is it still the same tool from outside, and does it ask for more than before?
//
// # Hashes
//
// The interface hash is the BLAKE3 of the canonical JSON (package jcs) of the three schemas, those that are absent
// left out:
//
//	{"error":{…},"input":{…},"output":{…}}
//
// The grants hash is the same of what an item may do:
//
//	{"limits":{"turns":4},"network":["api.acme.example"],"permissions":["execute:tool:acme/fetch"],"risk":"read","secrets":["acme-token"]}
//
// and of an item that touches files of the project also "files":{"read":["."],"write":["docs"]}. Permissions are in
// the canonical form of package capability, and they, secrets, hosts and paths are sorted, each once; a path below
// another of its list is left out. What is empty is absent: an item without grants has the hash of {}.
//
// # Differences
//
// Diff compares two states of one tool and names each change with the place where it is, as a JSON pointer into
// {"input", "output", "error", "grants", "description", "tags", "examples"}, with what was there and what is there
// now, and with a class:
//
//	breaking    a caller that relied on the old state fails, or the item asks for more than was accepted
//	warning     needs a look, because a strict caller may fail
//	compatible  no caller fails
//	info        says nothing to programs
//
// An input schema may widen: whatever was accepted still has to be. An output or error schema may narrow: whatever
// comes out has to be something that could come out before. Schemas are JSON Schema, of any draft since 4, with
// "nullable"; a schema that isn't there allows everything. The kind of a change is the keyword and whether the new
// state allows less, more, or can't be compared: "enum_narrowed", "minimum_widened", "pattern_changed". These have
// kinds of their own:
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
// A caller is taken to send what the old input schema declares: a value under a name that it neither declared nor
// constrained doesn't count when the new one declares that name. That apart, a change that isn't reported as breaking
// or as a warning is shown to be compatible, and what can't be shown is reported as breaking: "undecided" where a
// reference doesn't lead to a schema of the same document, where schemas are too deep or too large to be compared, or
// are no JSON. Unions are compared branch by branch; what stands under a keyword that the package doesn't know must
// not change.
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
// A permission is only added if no old one covers it. Files are wider if a path is read or written that was not,
// neither by itself nor by a directory above it; what was written was read as well, but to write "." was not to read
// what Writable doesn't allow. Items stand in the order of their class, place and kind.
package shape
