// Package diff compares two bundles. It grades each change by its effect on users.
//
//	report, err := diff.Diff(ctx, diff.Side{Bundle: old, Files: oldFiles, Below: spaces}, diff.Side{Bundle: next,
//		Files: nextFiles, Below: spaces})
//
// Diff compares two manifests, and the meaning of the items that are in both with different bytes. It verifies
// neither side: a bundle's own extractors don't count, and bytes are compared with the manifests alone. The same
// two sides give the same report, which can be written as JSON.
//
// # How a comparison goes through here
//
// Diff compares the headers and the files of the manifests (headers, files). items makes a reader for each side and
// calls item for each ref, which reads both states; Item.compare then calls shape.Diff, fields, markup and
// compareTexts. conclude sums up the classes.
//
// # Classes
//
// Each change has a class of package shape: breaking, warning, compatible or info. The report has the worst of
// them.
//
//	a removed item                                       breaking
//	a new item                                           compatible; lists the grants that it requests
//	interface, grants, risk, limits, description, tags   as in package shape
//	version, title, name, category, author, entry_type   info
//	references, the model of a directive                 info
//	any other field, such as executor_id, anchor         warning
//	other content of a directive's elements              warning
//	the prompt of a directive                            warning
//	the text of knowledge                                info
//	entrypoint, license                                  warning
//	requirements                                         warning; a removed requirement is compatible
//	version, description and end of the bundle; evidence info
//	another file                                         removed or with another mode: warning; new or changed: info
//
// Code has no class of its own. An item that changed without further entries declares the same as before and has the
// class info, like an item whose signature lines alone differ ("signed").
//
// # Texts
//
// Prose is compared by words (runs of letters and digits, runs of blanks, and every other character by itself) with
// the algorithm of Myers, which finds a smallest set of edits. It stops at 1,000 edits, 2^23 steps or 2^18 words.
// The lines are then compared in the same way. If that is too much work, too, the text between the first and the
// last difference is one edit ("whole"). By names the method. Two unchanged lines on both sides of an edit are
// kept, at most 200 bytes each; the text between is replaced by its length.
//
// The code of tools, without signature lines, and other text files below .ai are compared by lines, up to 1 MiB and
// the same number of edits.
package diff
