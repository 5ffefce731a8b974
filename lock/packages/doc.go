// Package packages is the parser for lists of PyPI and npm packages with digests.
//
// How a call goes through here: For picks the reader by the file's name. Requirements joins the lines (eachLine) and
// parses options, requirements, hashes and markers (parseMarker). PackageLock parses the JSON entries one by one
// (lockEntry). When a tool runs, Choose returns the packages that its environment needs, by asking Wanted for each.
//
// A tool names in "packages" the file that lists its Python wheels or Node tarballs. The ecosystem's own program
// makes that file: it selects the versions and writes the digests ("pip-compile --generate-hashes", "uv pip compile
// --generate-hashes", "npm install --package-lock-only"). Entries without a digest are refused, and nothing is
// fetched. The file's name, apart from a leading "_", selects the reader:
//
//	…requirements.txt   Requirements reads it
//	package-lock.json   PackageLock reads it
//
// # Requirements
//
// Lines as pip reads them: "\" at the end continues the line, and "#" begins a comment at the beginning of a line
// or behind space. A line is then empty, or one of the options --require-hashes and --only-binary :all:, which
// state what is the rule here anyway, or
//
//	requests[socks]==2.32.3 ; python_version >= "3.8" --hash=sha256:7075… --hash=sha256:5b36…
//
// The name is written as registries compare it: lower case, each run of "-", "_" and "." one "-". Extras matter
// only to the list's author, whose list has the packages that they bring in: they are checked and dropped. There is
// one version, by "==" and without "*". Each hash is of one file of that version, by sha256. A name may be listed
// twice with two versions if both have a marker.
//
// A marker says where a package is needed. It is stored, and evaluated when the tool runs (Wanted). It compares
// python_version and python_full_version with a release, as in "3.11" or "3.*", by < <= == != >= > ~=; os_name,
// sys_platform, platform_system, platform_machine, platform_python_implementation and implementation_name with a
// text, by == != in "not in"; with and, or and parentheses, at most 16 deep. Other variables (extra, and the
// release and version of the machine's system) are refused, because their values change between machines.
//
// Refused with their lines: entries without a hash, other hashes, ranges and "===", addresses and repositories,
// paths, "-r", "-c", "-e", and options that say where packages come from, because rye.yaml decides that.
//
// # Package-lock
//
// JSON, read strictly (package jcs), of lockfileVersion 2 or 3. Each entry of "packages" counts, except "", which
// is the project itself. Its members are
//
//	the key              its place: "node_modules/a/node_modules/@b/c", at most 32 packages deep
//	version              semver
//	name                 its name in the registry, if that isn't the end of the key
//	resolved             the https address of its tarball, no query; may be missing, as npm can be configured to omit
//	                     it
//	integrity            one sha512 among its digests
//	optional, os, cpu, libc   where it is needed: optional ones that support neither Linux, macOS nor Windows are
//	                          skipped
//	dev, inBundle        packages for development only are skipped, and so are those inside of another's tarball,
//	                     where they stay
//	hasInstallScript     it has an install script. rye never runs one, so it is refused; an optional one is
//	                     skipped, as npm skips one whose script fails
//	link                 refused, like every other entry that isn't below node_modules: it isn't a package of a
//	                     registry
//
// An entry without integrity, with a sha1 alone, or from git or a file is refused.
//
// # Limits
//
// A list has at most 16 MiB, 10,000 packages and 100,000 files. A line of requirements, joined, has at most 256 KiB.
package packages
