// Package diff is the comparison of two bundles. It grades each change by its effect on users.
//
//	report, err := diff.Diff(ctx, diff.Side{Bundle: old, Files: oldFiles, Below: spaces}, diff.Side{Bundle: next,
//		Files: nextFiles, Below: spaces})
//
// It compares two manifests, and the meaning of the items that are in both with different bytes. Neither side is
// verified: a bundle's own extractors don't count, and bytes are compared with the manifests alone. The same two
// sides give the same report, which can be written as JSON.
//
// # Classes
//
// Each change has a class of package shape: breaking, warning, compatible, info; and the report has the worst of
// them.
//
//	an item that is gone                                     breaking
//	an item that is new                                      compatible; what it asks for is listed
//	interface, grants, risk, limits, description, tags       as package shape says
//	version, title, name, category, author, entry_type, references, and what the model of a directive prefers  info
//	any other field, as executor_id, config, anchor          warning
//	what else stands in the elements of a directive, by where, as "metadata/owner@team"   warning
//	the prompt of a directive                                warning
//	the text of knowledge                                    info
//	entrypoint, license; what is required, but for what no longer is, which is compatible   warning
//	version, description and end of the bundle; evidence     info
//	a file that is no item: gone, or its mode is another     warning; new or changed: info
//
// Code isn't compared: that an item changed and nothing else is said of it means that what it declares is the same,
// and it has the class info, as has one where only the signature lines differ ("signed").
//
// # Texts
//
// Prose is compared by words: runs of letters and digits, runs of blanks, and every other character by itself, with
// the algorithm of Myers, which finds a smallest set of edits. It stops at 1,000 edits, 2^23 steps or 2^18 words;
// then the lines are compared in the same way, and if that is too much as well the text between the first and the
// last difference is one edit ("whole"). A text says by which it was compared. Between edits two lines of what stays
// are kept on both sides, at most 200 bytes each, and the middle is replaced by its length.
package diff
