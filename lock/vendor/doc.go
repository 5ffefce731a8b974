// Package vendor is a directory of objects in the project itself, for all bytes that its lock names.
//
// How a call goes through here: Write plans the files from the digests (newPlan), reads the directory's current files
// (examine), fetches missing objects (prefetch, fill), writes new files beside the old ones (stage) and then moves
// them into place (replace). Vendor.Get picks the packs for a digest (packsOf), indexes a new or changed pack (look,
// refresh) and hashes the object's line (read). Visit reads whole packs instead, and Check compares the directory
// with a plan.
//
// A directory .ai/vendor holds every object that a lock names, so that a clone needs no store and no network. It
// suits git: there are few files, a change touches few of them, their bytes depend on the objects alone, and two
// branches can change them without a conflict.
//
// # Files
//
//	.gitattributes    how git treats the others
//	all.pack          all small objects, as long as they are not many
//	0.pack … f.pack   else those whose digest begins with this digit
//	00.pack … ff.pack, 000.pack …, where one of these would be too large, in its place
//	HEX.blob          a large object, which is the file; also HEX.tree and HEX.document
//	HEX.tlog-proof    the proof that a registry's log has the bundle with this manifest (package manifest/tlog)
//
// An object of at most 65,536 bytes is small. A pack is too large with more than 1 MiB, counting each object with 100
// other bytes than its own. HEX is the 64 digits of a digest.
//
// # Packs
//
// A pack has one object per line, sorted by bytes:
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
// A line with signatures names a blob with signature lines of a document (package manifest).
//
// # Reasons
//
// Naming packs by their own digests would cause conflicts: git takes a removed pack and a similar new one for a
// renamed file, so two branches that each add an object would conflict in renames. Therefore names change rarely, and
// digests alone determine a pack's content: a new object is one more line in one file. Git merges distant lines by
// itself; for neighbours, .gitattributes selects the merge "union", which every git has and which keeps the lines of
// both. A merged pack may be out of order and have duplicate or superfluous lines: readers accept that, and Write
// repairs it.
//
// A pack has no index at its beginning, because it couldn't be merged. A reader chooses packs by the first digits of
// a digest and finds lines there at the speed of memory. Packs aren't compressed: git does that, and better when it
// sees how little is new. Packs contain no byte that makes git or an editor treat them as binary.
//
// # Errors
//
// No file here is trusted. What a proof shows, its reader verifies with the keys of the log and of witnesses. It has
// other bytes whenever it is made, so WriteProofs is given the one that is there, as long as that counts. Each object
// is hashed, a large one while it is read and a small one before, so that a damaged, forged or misplaced line is an
// error or is ignored. Looking for an object in an invalid pack returns an *Error with file and line. Exceptions are
// order, duplicate lines, and git's conflict markers: they don't concern objects. A pack has at most 16 MiB, a line
// 131,300 bytes, a directory 1,048,576 lines, and a lock at most 262,144 objects. No link is followed, not even the
// directory itself.
//
// # Interruptions
//
// Write replaces a file only by a complete new one, in two steps: first it adds everything new, and packs that lose
// lines keep them; once all of that is durable, it removes unneeded lines and files. If it is stopped at any moment,
// all objects of the old lock are present, or all of the new. It removes only files that it could have written
// itself. The caller ensures that one Write runs at a time. Readers may run concurrently: objects that they have
// found stay readable, and removed objects are missing to them.
package vendor
