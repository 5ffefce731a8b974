// Package unpack reads packages of registries: Python wheels and npm tarballs. It never runs their content, builds nothing, and
// places files only by the rules below.
//
// An archive is read twice. The first time everything in it is checked, to the end, and each file gets a digest: errors occur
// here, before anything is written. The second time the files are read by these digests, and hashed again as they are written
// (package materialise). Memory doesn't grow with the size of files.
//
// # Both formats
//
//	files        only regular ones: a link, a device or a sparse file is refused. Directories are those of the files
//	paths        portable as a set (package portable), apart from directories called node_modules. Two paths that differ only
//	             in case, or a file and a directory with one path, are refused. What is never part of a tree, such as
//	             .DS_Store and __pycache__, is left out
//	modes        a file is executable if any executable bit is set
//	limits       at most MaxFiles entries, MaxBytes of files, and Ratio times the size of the archive or MinBytes, whichever is
//	             more, whatever the archive declares
//
// # Wheels
//
// A wheel (version 1 of the format) is a zip archive from its first byte to its last, of stored or deflated files, not encrypted,
// with a directory of at most MaxDirectory bytes, not zip64. It has one directory NAME-VERSION.dist-info, matching its file name,
// with
//
//	WHEEL     contains "Wheel-Version: 1.…"
//	RECORD    lists every file with its digest, sha256, sha384 or sha512, and its length: a file that is unlisted, different or
//	          missing is an error. RECORD itself, RECORD.jws and RECORD.p7s have no digest
//
// Files in NAME-VERSION.data/purelib and platlib are placed beside the others. Scripts, headers and data there are checked and left
// out: nothing is installed, a tool imports. Any other directory there is refused. Files that end in .pth are ordinary files, and
// not executed.
//
// # Tarballs
//
// A tarball is one gzip member and nothing else, around a tar archive whose files are all in one directory, usually called package,
// which is stripped. It contains a package.json. node_modules has the package's bundled dependencies. Scripts in package.json are
// never run, and "bin" makes no commands.
package unpack
