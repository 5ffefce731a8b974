// Package sign answers: who signed this file, as what, and is it still what they signed?
//
// A file carries its signatures as comment lines. Which comments it takes, and what it is called, the caller
// says; this package doesn't know items.
//
// # Format v2
//
//	#!/usr/bin/env python3
//	# rye:signed:v2:2026-11-20T09:00:00Z:c4e5644f633d2a9a17371cd61d983b1753528c865ad0a1dff714b3f728bfe8eb:Z9V2mCqPYphnM06OKChhzpJxJbjyfMK8GgycGDIESG7urqpXg1NFV1V826XviHmVD0R4nJvcNIUn4DR1uG2BBw:6c31041268f471609c79f5f2dbcc38e4a4ab2f4d416109a4e09fcf50fd0f0062
//	__version__ = "1.0.0"
//	print("hi")
//
//	line        = open "rye:signed:v2:" time ":" digest ["+" tree] ":" signature ":" fingerprint close LF
//	time        = YYYY-MM-DDTHH:MM:SSZ                 ; exists in the calendar
//	digest      = 64 lower-case hexadecimal digits     ; BLAKE3-256 of the file without its lines
//	tree        = the same                             ; of the other files that the file vouches for, not all zero
//	signature   = 86 characters of base64url           ; Ed25519, unpadded, unused bits zero
//	fingerprint = 64 lower-case hexadecimal digits     ; of the key, see package key
//
// The digest is of raw bytes: no line end, space or byte order mark is normalised. The signature is of
//
//	domain NUL name time digest tree fingerprint
//
// where the domain is one of the constants (here rye/v2/item), the name is the caller's (here tool:demo/hi; 1 to
// 1,000 printable ASCII characters without spaces), the others are the text of the line (tree may be empty), and
// each field after the NUL is preceded by its length, 4 bytes, big-endian. So a signature is for one purpose,
// one name and one content, and nothing in its line can be changed.
//
// # Comments
//
//	open     close   style    extensions
//	"# "             Hash     py sh bash yaml yml toml rb pl tcl star
//	"// "            Slashes  js mjs cjs ts go rs java c
//	"<!-- "  " -->"  Angle    md html xml
//	"-- "            Dashes   lua sql
//
// JSON has no comments, and such files carry no lines. An extractor may give one of these styles to more
// extensions.
//
// # Place
//
// The lines stand together, at the first byte unless the file, looked at without them, begins with
//
//	a byte order mark (UTF-8)                             they stand behind it and what follows
//	a line that is exactly "---"                          below it, as "# " comments: this is front matter,
//	                                                      except in Dashes, where it is a comment
//	Hash: a coding line, as Python defines it             below it
//	Hash: a comment or blank line, then a coding line     below both: Python looks for it in the first two lines
//	Angle: a line <?xml … ?>                              below it: nothing may stand before an XML declaration
//	a line that begins with "#!"                          below it
//
// The first of these that fits decides. Lines end with LF, or CR LF where they are not ours, and those of more
// than 1,000 bytes, line end included, are neither looked at nor signature lines. A file that ends within a line
// below which they would stand can't be signed, nor one in UTF-16, nor one where that line ends in a backslash: to
// some languages (Tcl, C) such a comment goes on in the next line, and what is between them would change the program.
//
// They are sorted by fingerprint, one for each key, at most 16 (MaxLines), and none stands beside a line of the
// first format. A reader looks in two places: at the first byte, and where the lines belong; similar text
// anywhere else is content. What it finds must be what is written when the lines are put back into the rest:
// otherwise, whatever the lines say, the file is an *IntegrityError. A line of a later version is a
// *VersionError. Text that only begins like a line, such as "# rye:signed: yes", is content.
//
// # Format v1
//
// The first format is read for what exists in it, by rules that depend on the kind of the file:
//
//	# rye:signed:2026-11-20T09:00:00Z:8c32baea2856eafac9618af8090e77b1c862c7817ed6855a5ef5d2a1cea8b3c5:Wl0eozhoFitnYRGDC027hnvHDA0DHhGpqUnQoGwo2g0YIyAuwCT0_1VxPlWCZeE20je2TAs3bgGKhwSDANFQCw==:7f2d9ed0b71b8e5a
//	__version__ = "1.0.0"
//	print("hi")
//
//	rye:signed:TIME:SHA256:SIGNATURE:KEY[|PROVIDER@USER]
//
// The line is the first. For directives and knowledge it stands in <!-- … -->, whatever the extension. For tools it
// stands behind "# ", as rye 1 writes it by default, or behind the "// " or "-- " of the tool's own style, as an
// extractor of a project could make it; a line that begins with "#!/" may stand above. KEY is key.V1ID; the signature,
// padded base64url, is of the 64 digits of SHA256, which is over the text in UTF-8 with every line end made LF:
//
//	V1Directive  from the first <directive…> to the last </directive>
//	V1Tool       all but the line and a line that begins with "#!/" above or below it; if that ends in a
//	             backslash, no line counts below it
//	V1Knowledge  all but the line; of text that begins with "---", what follows the next "---", without space
//	             around it
//
// So name, time, PROVIDER@USER, #! lines, front matter, and of a directive everything outside the element are not
// signed: such a signature is evidence that a key once signed some of this, and admits nothing by itself.
// Stripped is BLAKE3-256 of the raw bytes without the line, what a v2 line would name after StripV1.
package sign
