// Package vendor answers: are all bytes of this lock in the project itself?
//
// A directory .ai/vendor holds every object that a lock names, so that a clone needs no store and no network. It is
// made for git: few files, few of them touched by a change, whose bytes depend on the objects alone, and which two
// branches can change at once without a conflict.
//
// # Files
//
//	.gitattributes    how git treats the others
//	all.pack          all small objects, as long as they are not many
//	0.pack … f.pack   else those whose digest begins with this digit
//	00.pack … ff.pack, 000.pack …, where one of these would be too large, in its place
//	HEX.blob          a large object, which is the file; also HEX.tree and HEX.document
//
// An object of at most 65,536 bytes is small. A pack is too large with more than 1 MiB, counting each object with 100
// other bytes than its own. HEX are the 64 digits of a digest.
//
// # Packs
//
// A pack has one object in a line, sorted by their bytes:
//
//	rye: "vendor/2"
//	3d85…33af tree 14 rye: "tree/2"\n
//	77c1…0a52 document 812 rye: "manifest/2"\nid: "acme/notes"\n…
//	77c1…0a52 signatures 9c5e…41d0
//	9c5e…41d0 blob 301 # rye:signed:v2:…\n
//
//	pack    = `rye: "vendor/2"` LF *line
//	line    = digest " " (kind " " size " " data / "signatures" " " digest) LF
//	digest  = 64 lower-case hexadecimal digits
//	kind    = "blob" / "document" / "tree"
//	size    = of the object in bytes, decimal, without leading zeros
//	data    = the bytes of the object, with LF written \n, CR \r, NUL \0 and the backslash \\, and no other
//
// A line with signatures says that a blob has signature lines of a document (package manifest).
//
// # Why so
//
// Packs that are named by their own digest look as if they could never collide. But git takes one that is gone and one
// that is new and much like it for a renamed file, and two branches that add one object each are a conflict of renames
// then. So names are as lasting as can be, and what is in a pack follows from digests alone: a new object is one more
// line in one file. Lines far from each other git merges by itself; for neighbours, .gitattributes names the merge
// "union", which every git has, and which keeps the lines of both. What was merged may be out of order, and have lines
// twice or too many: readers don't mind, and Write puts it right.
//
// There is no index at the beginning of a pack, for it couldn't be merged. A reader looks at the packs that it needs,
// by the first digits of what it looks for, and finds the lines there at the speed of memory. Nothing is compressed:
// git does that, and much better when it sees how little is new. No byte stands in a pack that makes git or an editor
// take it for binary.
//
// # What is refused
//
// Nothing here is believed. Each object is hashed, a large one as it is read and a small one before, so that a
// damaged, forged or misplaced line is an error or nothing. A pack that isn't as above is an *Error with file and line
// when something in it is looked for, but for order, lines that are there twice, and lines that git leaves in a file
// whose merge isn't finished: they say nothing of objects. A pack has at most 16 MiB, a line 131,300 bytes, a
// directory 1,048,576 lines, and a lock at most 262,144 objects. No link is followed, not even the directory itself.
//
// # What holds at every moment
//
// Write never puts in the place of a file anything but a whole new one, and it does so in two steps: first everything
// that is new comes, and packs that lose lines keep them; only when all of that is durable, what isn't needed goes.
// Whenever it is stopped, all objects of the old lock are there, or all of the new. It removes nothing but files that
// it could have written itself. One Write at a time is the caller's matter. Readers may go on meanwhile: what they
// have found they can read, and what goes they miss.
package vendor
