// Package glob answers: does this pattern cover that name, and which of several decides?
//
// A name is a kind, a colon and an id: tool:acme/fetch, bundle:acme/x@1.0.0; globs see no version. A glob is
// the same with wildcards in the id: "*" is any run of characters in a segment, "**" is whole segments, any
// number of them, but at the end at least one: acme/** covers what is in acme/, a/**/b covers a/b. "[", "?" and
// all else that no id holds is refused. Without a kind a glob covers items of all kinds, bundles and
// indexes (which say where bundles are, and vouch for none), but not audit, build, policy, revocations, rotation,
// token and transcript, which must be named.
//
// Of globs that cover a name the one with the longest literal text before the first star decides; the end of a
// glob without stars counts as one letter more, and of two that are alike so far the one that names the kind
// decides. Two that could still both decide about one name collide, and readers of globs refuse
// the file.
//
// A glob has at most 200 bytes, and matching takes no longer than the product of its length and the name's.
package glob
