// Package project is the format of rye.yaml: a project's name, its requirements, and the roots to lock.
//
// How a call goes through here: Parse reads the file as strict YAML (package yamltree), checks the required rye
// version first, and then each section (requirements, registries, roots). ParseSource reads the texts of sources,
// with splitGit and badReference for repositories and registries. An edit such as Add copies the tree, changes it and
// parses the result again (change); Format returns its text.
//
// People write rye.yaml and rye edits it. The package reads and changes bytes; it opens no file and fetches nothing.
//
// # The file
//
//	name: acme/shop
//	version: "0.1.0"
//	rye: "0.3.0"
//
//	registries:
//	  "https://registry.example":
//	    names: ["acme/shared/**"]
//	    log: "registry.example/log+9c2dabef+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
//	    key: "gTl3Dqh9F19Wo1Rmw0x-zMuNipG07jeiXfYPW4_Js5Q"
//
//	search: registries
//
//	requires:
//	  acme/shared/log: {version: "^3.0"}
//	  acme/base: {version: "^2.1", index: "https://bundles.acme.example/index.yaml"}
//	  acme/deploy: {version: "^1.4", from: "https://bundles.acme.example/deploy-1.4.2.rye"}
//	  acme/style: {version: "^1.0", from: "git+https://git.acme.example/style.git@main"}
//	  # beside this repository
//	  acme/notes: {version: "*", from: "../notes"}
//	  plugins/db: {version: "^1.0", from: "../db", allow: {db: ["files:read:data", "secret:token=DB_TOKEN"]}}
//
//	packages:
//	  npm: "https://npm.acme.example"
//	  pypi: "../wheels"
//
//	roots:
//	  - "directive:acme/shop/release"
//	  - "tool:acme/shop/**"
//
// Package yamltree reads it as strict YAML: no unknown or duplicate keys, and scalars are texts exactly as written. A
// *yamltree.Error has the line and the column. Every key is optional: an empty file is a project without
// requirements.
//
//	name       what the project is called: an id by portable.CheckID
//	version    which version it is, by semver 2.0
//	rye        the oldest rye that may work on it
//	registries the address of a registry of bundles → names (globs of the bundles that come from it), log (the key of
//	           its log) and key (the public key that signs its indexes), all of them as they were when the registry
//	           was met
//	search     registries: what agents search and load may also come from the registries; without it only from the
//	           items of the project
//	requires   the id of a bundle → version (a range by package semver, always there) and where it comes from: from
//	           or index, one of them, or neither for a bundle that the names of one registry cover; and use, the
//	           items of the bundle that are roots, as in use: ["tool:acme/notes/**"]; all of them without it; and
//	           allow, the rights of a plugin's servers by the last segments of their ids, as in
//	           allow: {db: ["files:read:data", "network:db.example.com", "secret:token=DB_TOKEN"]}
//	packages   where packages of npm and PyPI come from, for tools that name some: the address of a registry, without
//	           a query, or a directory with files; without it the public one
//	roots      the items that are locked with everything they use: refs, globs by package glob, and "." for all items
//	           of the project, which is also the default. The items of required bundles are added (AllRoots)
//
// "from" is one bundle: a directory, the path or https address of an archive, or a git repository. An address may use
// http, which rye accepts for this machine, and for others with --plain-http. "index" is a list of many versions of
// many bundles: its https address, or its directory. A path is relative to the directory of rye.yaml and portable; it
// may begin with "../" or "./". An absolute path, one with "\" or "~", and any other address is refused: all users of
// the project share the file. Addresses have no user and no fragment, and are written in their encoded form.
//
// A repository is "git+" and its https address, then optionally "?dir=" and the project's directory in it, then "@"
// and a branch, a tag, or a full commit id; the default is the repository's HEAD. An @ in the address is written %40.
// A revision can't look like an option and can't contain ".." or "@{".
//
// Transitive dependencies are not named here. Errors are: a range that allows no version, the library that is part of
// rye (rye/std), two ids that differ only in case, an empty list of roots, and a root of an unknown kind. There are
// at most 1,000 requirements and as many roots.
//
// A file that requires a newer rye than the running one is a *NewerError, whatever else it contains, because only the
// newer rye may know the other keys.
//
// # Edits
//
// An edit returns a new Project, whose Format returns the file: in the layout of package yamltree, with comments in
// place. The result is parsed again by the same rules.
package project
