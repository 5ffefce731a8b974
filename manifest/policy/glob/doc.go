// Package glob matches names with patterns, and selects the one of several patterns that decides about a name.
//
// A name is a kind, a colon and an id: tool:acme/fetch, bundle:acme/x@1.0.0; globs ignore the version. A glob is a
// name with wildcards in the id: "*" is any run of characters in a segment, and "**" is any number of whole
// segments, at the end at least one: acme/** covers the names in acme/, and a/**/b covers a/b. "[", "?" and all
// other characters that no id has are refused. A glob without a kind covers items of all kinds, bundles, and
// indexes (which locate bundles and vouch for none), but not audit, build, policy, revocations, rotation, token and
// transcript, whose kind must be named.
//
// Of the globs that cover a name, the one with the longest literal text before the first star decides. The end of a
// glob without stars counts as one more letter. Of two globs that are equal so far, the one that names the kind
// decides. Two globs that could still both decide about one name collide, and readers of globs refuse the file.
//
// A glob has at most 200 bytes. The time of matching is bounded by the product of its length and the name's.
package glob
