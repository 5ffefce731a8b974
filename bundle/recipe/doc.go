// Package recipe is the parser of bundle.yaml, which selects and describes the files of a bundle.
//
//	id: acme/deploy
//	version: 1.4.0
//	description: Deploys, with care
//	license: MIT
//	entrypoint: "directive:acme/deploy"
//	expires: "2027-11-20"
//	include:
//	  - "directive:acme/*"
//	  - ".ai/tools/acme/**"
//	exclude:
//	  - ".ai/tools/acme/drafts/**"
//	assets:
//	  - "docs/**"
//	  - README.md
//	executable:
//	  - ".ai/tools/acme/**/*.sh"
//	allow-secret:
//	  ".ai/tools/acme/testdata/key.pem": made for the tests, opens nothing
//	requires:
//	  acme/base: "^2.0.0"
//	build:
//	  app:
//	    tool: "tool:acme/minify"
//	    inputs: ["src/**/*.js"]
//	    outputs: [dist/app.js]
//	    params: {level: "3"}
//
// It is YAML read strictly, as package yamltree says; an *yamltree.Error has the line and the column. Only id and
// version must be there.
//
//	id            of the bundle (portable.CheckID)
//	version       by semver 2.0
//	description   one line of visible text, as license
//	entrypoint    the ref of an item, which must be in the bundle
//	expires       a day, or a second as in "2027-11-20T12:00:00Z", in UTC: from then on the bundle is not used any
//	              more
//	include       which files in .ai belong to it; without it all those of items whose id is, or is below, the
//	              bundle's
//	exclude       which of them don't
//	assets        which files outside of .ai belong to it, else none
//	executable    which files may be executed, where the file system doesn't know
//	allow-secret  in which files something that looks like a secret may be, and why
//	requires      bundles that this one uses, with a range of versions (package semver)
//	build         steps that make files of files
//
// # Globs
//
// A glob is a path relative to the directory that holds .ai, as the manifest has it. In a segment "*" is any run of
// characters, also none and also a leading dot; a segment "**" is any number of segments, but at the end at least
// one. All else is literal, brackets too. What no portable path can match is refused: "?", a backslash, "..", names
// such as .git. include also takes globs over refs, as in a policy: "tool:acme/**" is the files of these items and
// not what lies beside them, of the kinds that the kernel has. Only names count: a file with an extension of the kind
// is taken for an item here, whatever is in it.
//
// What include names without a star must be there. A glob that covers nothing is no error, but perhaps a mistake: see
// Unused.
//
// Some of what is in .ai is never bundled, and a glob that can only mean it is refused: bundles, vendor, threads,
// outputs, keys, policy.yaml, and what other directories there are that hold no items (see Never).
//
// # Steps
//
// A step has a name and
//
//	tool      the ref of a tool that is pure
//	inputs    globs of files of the project and of what other steps make: all that the tool sees
//	outputs   paths of what it makes, files or directories
//	params    parameters of the tool, as texts
//
// Only outputs must be there, and the tool. A step whose inputs cover an output of another, or something in it, is
// made after that one. Refused are circles, a step that covers its own outputs, an output that is another one or in
// it, in .ai, or what rye goes by. A file below an output is never a source. Whatever a step makes belongs to the
// bundle unless exclude says otherwise.
package recipe
