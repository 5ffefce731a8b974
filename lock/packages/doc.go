// Package packages is the parser for lists of PyPI and npm packages with digests.
//
// How a call goes through here: For picks the reader by the file's name. Requirements joins the lines (eachLine) and
// parses options, requirements, hashes and markers (parseMarker). PackageLock parses the JSON entries one by one
// (lockEntry). When a tool runs, Choose returns the packages that its environment needs, by asking Wanted for each.
//
// A tool names in "packages" the file that lists its Python wheels or Node tarballs. The ecosystem's own program
// makes that file, selects the versions and writes the digests: "pip-compile --generate-hashes", "uv pip compile
// --generate-hashes", "npm install --package-lock-only". Entries without a digest are refused, and nothing is
// fetched. By the name of the file, a "_" in front of it aside,
//
//	…requirements.txt   Requirements reads it
//	package-lock.json   PackageLock reads it
//
// # Requirements
//
// Lines as pip reads them: "\" at the end goes on in the next line, "#" begins a comment at the beginning of a line or
// behind space. What is left is empty, or the option --require-hashes or --only-binary :all:, which say what holds
// here anyway, or
//
//	requests[socks]==2.32.3 ; python_version >= "3.8" --hash=sha256:7075… --hash=sha256:5b36…
//
// The name is written as registries compare it: lower case, each run of "-", "_" and "." one "-". Extras matter only
// to the list's author, and the packages they bring in are in it; they are checked and dropped. There is one version,
// by "==" and without "*". Each hash is of one file of that version, by sha256. A name may stand twice with two
// versions where both have a marker.
//
// A marker says where a package is wanted. It is kept, and evaluated when the tool runs (Wanted). It compares
// python_version and python_full_version with a release, as in "3.11" or "3.*", by < <= == != >= > ~=; os_name,
// sys_platform, platform_system, platform_machine, platform_python_implementation and implementation_name with a text,
// by == != in "not in"; with and, or and parentheses, at most 16 deep. What else a marker can ask about (extra, and
// the release and version of the machine's system) the answer changes between machines, so it is refused.
//
// Refused with their lines: what has no hash, other hashes, ranges and "===", addresses and repositories, paths,
// "-r", "-c", "-e", and options that say where packages come from, since that is rye.yaml's to say.
//
// # Package-lock
//
// JSON, read strictly (package jcs), of lockfileVersion 2 or 3. Of each entry of "packages" but "", the project
// itself, count
//
//	the key              where it lies: "node_modules/a/node_modules/@b/c", at most 32 packages deep
//	version              semver
//	name                 what it is called in the registry, where that isn't the end of the key
//	resolved             the https address of its tarball, no query; may be missing, as npm can be configured to omit
//	                     it
//	integrity            one sha512 among its digests
//	optional, os, cpu, libc   where it is wanted: those of others than Linux, macOS and Windows are left out if they
//	                          are
//	                     optional
//	dev, inBundle        those for development alone are left out, and those that lie in the tarball of another,
//	                     where they stay
//	hasInstallScript     it wants to run a program when it is installed. No such program ever runs, so it is refused;
//	                     one that is optional is left out, as npm leaves one out whose program fails
//	link                 refused, like every other entry that isn't below node_modules: it is no package of a
//	                     registry
//
// An entry without integrity, with a sha1 alone, or from git or a file is refused.
//
// # Limits
//
// A list has at most 16 MiB, 10,000 packages and 100,000 files. A line of requirements, joined, has at most 256 KiB.
package packages
