// Package sign reads, makes and verifies the signatures of files.
//
// A file carries its signatures as comment lines. The caller names the comment style and the name under which the file
// is signed; this package doesn't know items.
//
// # How a call goes through here
//
// A signing: Read finds the signature lines in the file's head (findBlock) and hashes the rest; Signed.Sign drops
// stale lines and adds the key's (New); Rewrite writes the lines to their place. A check: Read; Check compares the
// lines with the content's digest, finds each key, and Claim.Holds verifies its signature. CheckV1 does the same for
// the v1 format.
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
// The digest is of raw bytes: no line end, space or byte order mark is normalised. The signed message is
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
// JSON has no comments, so JSON files carry no lines. An extractor may give one of these styles to more
// extensions.
//
// # Place
//
// The lines are together, at the first byte unless the file without them begins with
//
//	a byte order mark (UTF-8)                             behind it and the rules below
//	a line that is exactly "---"                          below it, as "# " comments: this is front matter,
//	                                                      except in Dashes, where it is a comment
//	Hash: a coding line, as Python defines it             below it
//	Hash: a comment or blank line, then a coding line     below both: Python searches the first two lines
//	Angle: a line <?xml … ?>                              below it: an XML declaration must be the first line
//	a line that begins with "#!"                          below it
//
// The first matching row decides. Signature lines end with LF, other lines with LF or CR LF. A line of more
// than 1,000 bytes, line end included, matches no row and is no signature line. A file can't be signed if it is
// UTF-16, or if the line above the signatures has no end or ends in a backslash: in
// some languages (Tcl, C) such a comment continues in the next line, and a line in between would change the program.
//
// The lines are sorted by fingerprint, one for each key, at most 16 (MaxLines). A file has no lines of both
// formats. A reader searches two places: the first byte, and the place of the style; similar text
// anywhere else is content. Putting the lines back into the rest must give the same bytes:
// otherwise the file is an *IntegrityError, even if the signatures are valid. A line of a later version is a
// *VersionError. Text that only begins like a line, such as "# rye:signed: yes", is content.
//
// # Format v1
//
// Existing files of the first format are read by rules that depend on the kind of the file:
//
//	# rye:signed:2026-11-20T09:00:00Z:8c32baea2856eafac9618af8090e77b1c862c7817ed6855a5ef5d2a1cea8b3c5:Wl0eozhoFitnYRGDC027hnvHDA0DHhGpqUnQoGwo2g0YIyAuwCT0_1VxPlWCZeE20je2TAs3bgGKhwSDANFQCw==:7f2d9ed0b71b8e5a
//	__version__ = "1.0.0"
//	print("hi")
//
//	rye:signed:TIME:SHA256:SIGNATURE:KEY[|PROVIDER@USER]
//
// The line is the first. For directives and knowledge it is in <!-- … -->, whatever the extension. For tools it
// follows "# ", as rye 1 writes it by default, or the "// " or "-- " of the tool's own style, as an
// extractor of a project could make it; a line that begins with "#!/" may precede it. KEY is key.V1ID; the signature,
// padded base64url, is of the 64 digits of SHA256, which is over the text in UTF-8 with every line end made LF:
//
//	V1Directive  from the first <directive…> to the last </directive>
//	V1Tool       all but the line and a line that begins with "#!/" above or below it; if that ends in a
//	             backslash, no line counts below it
//	V1Knowledge  all but the line; of text that begins with "---", the part after the next "---", without space
//	             around it
//
// So name, time, PROVIDER@USER, #! lines, front matter, and of a directive everything outside the element are not
// signed: such a signature is evidence that a key once signed some of this, and admits nothing by itself.
// Stripped is BLAKE3-256 of the raw bytes without the line: the digest of a v2 line after StripV1.
package sign
