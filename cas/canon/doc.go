// Package canon reads and writes canonical documents: text files that people can diff and any YAML reader can read,
// and that have exactly one byte sequence for each content. Trees, manifests, locks, revocation lists and indexes
// are such documents. A Spec defines the content of one kind of document; everything else is the same for all.
//
// How a document goes through here: Scanner.Scan reads the signature lines, the format line and the headers
// (Header), then one entry at each call: next opens sections (openSection) and reads the entry's line (entry,
// fields, value), and fill reads more of the input. On a bad line, the functions of syntax.go find the mistake. An
// Encoder writes in the same order: HeaderStr and its like, then Begin, the fields and End for each entry
// (beginField, take, endLine), and Close ends the document.
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
// Headers, sections and fields come in the order of the Spec, each at most once. Empty ones are absent: a section
// without entries, an empty list and an empty optional string are never written. Signature lines are the only
// comments, and hold printable ASCII. Their callers define everything else about them.
//
// The entries of a section are sorted by the bytes of their key, and no key is used twice. A key has 1 to 1,000
// bytes, counted as written between its quotes, because YAML readers reject longer ones.
//
// An integer is decimal, from 0 to 9,007,199,254,740,991 (2^53-1), without sign or leading zeros.
//
// A string is written in double quotes, with every character as itself in UTF-8, except
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
// version is a VersionError, regardless of the lines that follow, so that a program can report that it is too old.
//
// # Limits
//
// A Spec bounds the bytes and entries of a document, and every field. Together with the bound on lines, this keeps
// a Scanner's memory constant for every input.
package canon
