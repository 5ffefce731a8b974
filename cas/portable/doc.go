// Package portable decides which paths may stand in a tree: those that mean the same file on every operating
// system that rye builds for, whatever file system is below. The same rule holds wherever a tree is made or
// received, and on every machine; it never asks the operating system.
//
// A path is segments joined by "/", at most 1,000 bytes long, each segment at most 255. A path that
// may not be is refused by an *Error whose Rule is one of
//
//	empty           no byte: an empty path, a doubled or trailing "/"
//	dot             "." or ".."
//	absolute        a path that begins with "/"
//	path-length     more than 1,000 bytes
//	segment-length  more than 255 bytes
//	utf8            not UTF-8: overlong forms and encoded surrogates included
//	character       one of / \ : < > " | ? *
//	control         U+0000–U+001F, U+007F–U+009F, and U+2028 and U+2029, which end a line for many readers
//	ignorable       Default_Ignorable_Code_Point: invisible, and skipped by HFS+ and ext4 when they compare
//	unassigned      assigned in no Unicode version up to ours: its folding and normal form may yet change
//	noncharacter    U+FDD0–U+FDEF and the last two code points of each plane
//	private-use     private use code points
//	marks           more than 16 combining marks (of non-zero combining class) in a row
//	nfc             not in Normalization Form C
//	fold            folding and normalising it in one order is not the same as in the other
//	trailing        a dot or a space at the end, which Windows drops
//	device          CON PRN AUX NUL COM0–COM9 COM¹ COM² COM³ LPT0–LPT9 LPT¹ LPT² LPT³ CONIN$ CONOUT$ CLOCK$ in
//	                any case, alone or before a dot, with or without spaces before that dot
//	short-name      up to its first dot (leading dots aside) it ends in "~" and digits, as the 8.3 alias does
//	                that Windows gives to a longer name: GIT~1 is .git
//	git             folds to .git
//	dropping        what Droppings tells of: never part of a tree
//
// Private use code points are refused although they are assigned, because Cygwin, WSL and the SMB clients of
// macOS and Linux write the characters that Windows forbids as U+F001–U+F07F and read them back as what they
// stand for: a name with U+F03A there is one with a colon here. Nor does anybody promise what the others fold
// to. More than 16 marks are refused because beyond 30 some normalisers insert U+034F (UAX #15, Stream-Safe
// Text Format) and others don't. The rule fold concerns an iota subscript with another mark after it: the
// iota becomes a letter of its own under folding, so that systems which decompose first disagree about which
// letter bears the mark.
//
// Everything else is allowed: spaces inside and in front, "-" in front, "%2e", and letters that look like
// others. Where people must be able to tell names apart, as in the ids of items and bundles, CheckID allows
// ASCII only.
//
// A set of paths is sorted by bytes, and beyond the rules for each path has
//
//	order           a path that is not after the one before it
//	duplicate       the same path twice, or two paths that are the same after full Unicode case folding,
//	                wholly or in a directory that both begin with: README and ReadMe, A/x and a/y
//	prefix          a file where another path has a directory: a and a/b
//
// # One version of Unicode
//
// The tables are those of the version that the constant Unicode names, made by ./gen, and change only by a
// commit. A later version of the normaliser in golang.org/x/text doesn't change an answer: by Unicode's
// stability policy the normal form of a string of assigned code points is the same in every later version,
// and unassigned ones are refused before it is asked.
package portable

//go:generate go test -tags peers ./gen -run TestTablesAreGenerated -update
