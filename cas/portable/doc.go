// Package portable decides which paths a tree may hold: those that name the same file on every operating system
// that rye builds for, and on every file system. The same rules hold on every machine, for trees that are made and
// trees that are received. The package never asks the operating system.
//
// How a path goes through here: Check applies the rules for whole paths (checkWhole), then classes the bytes of
// each segment (checkFrom, kinds). An ordinary segment passes at once (checkSegment, plain). For any other, judge
// applies all rules to its code points (classify), its normal form (judgeForm) and its name (judgeName), and
// returns the first that it breaks. CheckSet checks each path of a sorted set (set.add), and compares the folded
// names of each directory when the set leaves it (closeTo, sameFold).
//
// A path is segments joined by "/", at most 1,000 bytes long, each segment at most 255. A path that is not allowed
// is an *Error whose Rule is one of
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
//	fold            the result of folding and normalising it depends on their order
//	trailing        a dot or a space at the end, which Windows drops
//	device          CON PRN AUX NUL COM0–COM9 COM¹ COM² COM³ LPT0–LPT9 LPT¹ LPT² LPT³ CONIN$ CONOUT$ CLOCK$ in
//	                any case, alone or before a dot, with or without spaces before that dot
//	short-name      up to its first dot (leading dots aside) it ends in "~" and digits, as the 8.3 alias does
//	                that Windows gives to a longer name: GIT~1 is .git
//	git             folds to .git
//	dropping        a name for which Droppings returns true: never part of a tree
//
// Private use code points are refused although they are assigned, because Cygwin, WSL and the SMB clients of macOS
// and Linux write the characters that Windows forbids as U+F001–U+F07F and read them back as those characters: a
// name with U+F03A there is one with a colon here. No standard defines the folds of the other private use code
// points. More than 16 marks are refused because beyond 30 some normalisers insert U+034F (UAX #15, Stream-Safe
// Text Format) and others don't. The rule fold concerns an iota subscript with another mark after it: folding turns
// the iota into a letter of its own, and systems that decompose first put the mark on another letter.
//
// Everything else is allowed: spaces inside and in front, "-" in front, "%2e", and letters that look like others.
// Where people must be able to distinguish names, as in the ids of items and bundles, CheckID allows only ASCII.
//
// A set of paths is sorted by bytes. It has these rules in addition to those for each path:
//
//	order           a path that does not come after the one before it
//	duplicate       the same path twice, or two paths that are the same after full Unicode case folding,
//	                wholly or in a directory that both begin with: README and ReadMe, A/x and a/y
//	prefix          a file where another path has a directory: a and a/b
//
// # One version of Unicode
//
// ./gen makes the tables from the version of Unicode in the constant Unicode; only a commit changes them. A later
// version of the normaliser in golang.org/x/text doesn't change an answer: by Unicode's stability policy the normal
// form of a string of assigned code points is the same in every later version, and unassigned ones are refused
// before the normaliser is called.
package portable

//go:generate go test -tags peers ./gen -run TestTablesAreGenerated -update
