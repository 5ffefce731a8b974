// Package project answers: what is this project called, what does it need, and what of it is to be locked?
//
// That stands in rye.yaml, a file that people write and rye edits. The package reads and changes bytes; it opens no
// file and fetches nothing.
//
// # The file
//
//	name: acme/shop
//	version: "0.1.0"
//	rye: "0.3.0"
//
//	requires:
//	  acme/base: {version: "^2.1", index: "https://bundles.acme.example/index.yaml"}
//	  acme/deploy: {version: "^1.4", from: "https://bundles.acme.example/deploy-1.4.2.rye"}
//	  acme/style: {version: "^1.0", from: "git+https://git.acme.example/style.git@main"}
//	  # beside this repository
//	  acme/notes: {version: "*", from: "../notes"}
//
//	packages:
//	  npm: "https://npm.acme.example"
//	  pypi: "../wheels"
//
//	roots:
//	  - "directive:acme/shop/release"
//	  - "tool:acme/shop/**"
//
// It is YAML read strictly, as package yamltree says: nothing unknown, nothing twice, and every text is the text that
// stands there. An *yamltree.Error has the line and the column. Everything may be missing: an empty file is a project
// that needs nothing.
//
//	name       what the project is called: an id by portable.CheckID
//	version    which version it is, by semver 2.0
//	rye        the oldest rye that may work on it
//	requires   the id of a bundle → version (a range by package semver, always there) and where it comes from: from
//	           or index, one of them; and use, the items of the bundle that are roots, as in
//	           use: ["tool:acme/notes/**"]; all of them without it
//	packages   where packages of npm and PyPI come from, for tools that name some: the address of a registry, without
//	           a query, or a directory with files; without it the public one
//	roots      the items that are locked with everything they use: refs, globs by package glob, and "." for all items
//	           of the project, which is also the default. The items of required bundles are added (AllRoots)
//
// "from" is one bundle: a directory, or the file of an archive, or the https address of one, or a repository of git.
// An address may use http, which rye takes from this machine, and from others if the user says so (--plain-http).
// "index" is a list of many versions of many bundles: its https address, or its directory. A path is relative to the
// directory of rye.yaml and portable; it may begin with "../" or "./". An absolute path, one with "\" or "~", and any
// other address is refused: the file is the same for everybody who works on the project. Addresses have no user and no
// fragment, and are written as they are sent.
//
// A repository is "git+" and its https address, then "?dir=" and the directory of the project in it, where that isn't
// the topmost one, then "@" and a branch, a tag, or all digits of a commit; without that it is what the repository
// shows first. An @ of the address is written %40. What is called as an option, or with ".." or "@{" in it, is no
// revision.
//
// A bundle that is needed by a bundle is not named here. A range that allows nothing, the library that is part of rye
// (rye/std), two ids that differ in case alone, an empty list of roots, and a root of a kind that no item has are
// refused. There are at most 1,000 requirements and as many roots.
//
// A file that asks for a newer rye than the one that reads it is a *NewerError whatever else it says, for the rest
// may be words that only the newer one knows.
//
// # Edits
//
// An edit returns another Project, whose Format is what to write: in the layout of package yamltree, with comments
// where they were. What an edit makes is read again like any other file, by the same rules.
package project
