// Package unpack reads packages of other people's registries: wheels of Python and tarballs of npm. It never runs what is in
// them, builds nothing, and follows nothing that an archive says about where its files belong but what stands here.
//
// An archive is read twice. The first time everything in it is looked at, to its end, and each file gets a digest: what is
// refused is refused here, before anything is written. The second time the files are read by these digests, and
// hashed again as they are written (package materialise). Memory doesn't grow with the size of files.
//
// # What holds for both
//
//	files        regular ones and nothing else: a link, a device or a sparse file is refused. Directories are those that
//	             files are in
//	paths        portable, as a set (package portable), apart from node_modules, which may be a directory. Two that are one
//	             where case doesn't count, or a file where another has a directory, are refused. What would never be part
//	             of a tree, as .DS_Store and __pycache__, is left out
//	modes        a file that may be executed by anybody there may be executed here; all else is a file
//	limits       at most MaxFiles entries, MaxBytes of files, and Ratio times the size of the archive, or MinBytes if that is
//	             more, whatever the archive says of itself
//
// # Wheels
//
// A wheel (version 1 of the format) is a zip archive from its first byte to its last, of files that are stored or deflated,
// not encrypted, with a directory of at most MaxDirectory bytes; not the 64-bit form. It has one directory NAME-VERSION.dist-info,
// of the name that the file has. In that are
//
//	WHEEL     which says "Wheel-Version: 1.…"
//	RECORD    which names every file with its digest, sha256, sha384 or sha512, and its length: a file that isn't listed,
//	          differs, or is listed and not there is a *RecordError. RECORD itself, RECORD.jws and RECORD.p7s have none
//
// What is in NAME-VERSION.data/purelib and platlib is put where all else is. Its scripts, headers and data are looked at and left out:
// nothing is installed, a tool imports. Any other directory there is refused. Files that end in .pth are files as others
// are, and not executed.
//
// # Tarballs
//
// A tarball is one member of gzip, and nothing behind it, around a tar archive whose files are all in one directory, called package
// in most. That is taken off. There is a package.json in it. What stands in node_modules is what the package has bundled.
// Scripts that package.json names are never run, and no command is made of what it has under "bin".
package unpack
