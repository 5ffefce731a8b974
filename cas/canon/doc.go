// Package canon reads and writes canonical documents: text files that people can diff and any YAML reader can
// read, and that have exactly one byte sequence for one content. Trees, manifests, locks, revocation lists and
// indexes are such documents. What a document may hold is said by a Spec; the rest is the same for all.
//
// # Format
//
//	# rye:signed:example
//	rye: "sample/1"
//	name: "demo"
//	serial: 7
//	tags: ["a", "b"]
//	items:
//	  "README.md": {title: "Read me", by: "ann"}
//	  "bin/run.sh": {title: "Run", count: 3, labels: ["x", "y"]}
//	marks:
//	  "one": {}
//
// The bytes are UTF-8 without a byte order mark, every line ends with LF, the last one too, and there are no
// blank lines. A line is at most 65,536 bytes long, LF included.
//
//	document = *signature format *header *section
//	signature = "# rye:signed:" 1*printable LF        ; at most 16, at most 1,000 bytes each, no space at the end
//	format    = `rye: "` family "/" version `"` LF
//	header    = name ": " value LF
//	section   = name ":" LF 1*entry
//	entry     = "  " string ": {" [field *(", " field)] "}" LF
//	field     = name ": " value
//	value     = string / integer / "[" string *(", " string) "]"
//	name      = a-z *(a-z / 0-9 / "-" / "_")           ; at most 64, and no word that YAML 1.1 takes for a boolean or
//	                                                     ; null
//
// Headers, sections and fields stand in the order of the Spec, each at most once. An optional one that has
// nothing to say is absent: a section without entries, an empty list and an empty optional string are never
// written. Signature lines are the only comments and hold printable ASCII; what else is true of them is the
// caller's matter.
//
// The entries of a section are sorted by the bytes of their key, each key once. A key has 1 to 1,000 bytes,
// counted as it is written between its quotes: YAML readers give up on longer ones.
//
// An integer is decimal, from 0 to 9,007,199,254,740,991 (2^53-1), without sign or leading zeros.
//
// A string stands in double quotes and every character as itself, in UTF-8, except
//
//	\" \\ \b \t \n \f \r        as these
//	other U+0000–U+001F, U+007F–U+009F, U+2028, U+2029,
//	U+FEFF, U+FDD0–U+FDEF, U+FFFE, U+FFFF     as \uXXXX with lower-case digits
//
// and no escape is written for any other character. The noncharacters beyond U+FFFF (U+1FFFE, U+1FFFF, … U+10FFFF)
// are refused: JSON would write them as two surrogate escapes, which YAML readers reject or turn into something else,
// YAML as \UXXXXXXXX, which JSON has not. So there is no surrogate escape at all.
//
// A reader refuses everything else, with the line and the column. A document of the right family and another
// version is a VersionError, whatever follows its first line, so that a program can say that it is too old.
//
// # Limits
//
// A Spec bounds the bytes and entries of a document, and every field. Together with the bound on lines this
// keeps a Scanner's memory constant, whatever it is fed.
package canon
