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
// bundle.yaml is YAML read strictly (package yamltree); a *yamltree.Error has the line and the column. Only id and
// version are required.
//
//	id            of the bundle (portable.CheckID)
//	version       by semver 2.0
//	description   one line of visible text, like license
//	entrypoint    the ref of an item, which must be in the bundle
//	expires       a day, or a second as in "2027-11-20T12:00:00Z", in UTC: the end of the bundle's validity
//	              more
//	include       which files in .ai belong to it; by default those of items whose id is, or is below,
//	              bundle's
//	exclude       which of them don't
//	assets        which files outside of .ai belong to it, else none
//	executable    which files may be executed, where the file system doesn't know
//	allow-secret  files that may contain apparent secrets, and why
//	requires      bundles that this one uses, with a range of versions (package semver)
//	build         steps that make files from files
//
// # Globs
//
// A glob is a path relative to the directory that holds .ai, like a path of the manifest. In a segment, "*" matches
// any run of characters, even an empty one or a leading dot. A segment "**" matches any number of segments, at the
// end at least one. All other characters are literal, brackets too. A glob that matches no portable path is
// refused: "?", a backslash, "..", names such as .git. include also takes globs over refs, as in a policy:
// "tool:acme/**" is the files of these items without the files next to them, for the built-in kinds. Only names
// count: a file with an extension of the kind is taken for an item, whatever its content.
//
// A path under include without a star must exist. A glob that matches nothing is no error, but may be a mistake:
// see Unused.
//
// Some entries of .ai are never bundled, and a glob that can match only these is refused: bundles, vendor, threads,
// outputs, keys, policy.yaml, and other directories that hold no items (see Never).
//
// # Steps
//
// A step has a name and
//
//	tool      the ref of a tool that is pure
//	inputs    globs of project files and of other steps' outputs: the tool sees nothing else
//	outputs   paths of the files or directories that it makes
//	params    parameters of the tool, as texts
//
// Only the tool and the outputs are required. A step whose inputs match an output of another step, or a path below
// it, runs after that step. Refused are circles, a step that matches its own outputs, an output that is in another
// output or in .ai, and an output that is one of rye's own files. A file below an output is never a source.
// Everything that a step makes belongs to the bundle unless exclude matches it.
//
// # How a recipe goes through here
//
// Read reads bundle.yaml, or Parse its text, whose fields readHead, readText, readFiles, readSecrets, readRequires
// and readBuild check; readBuild orders the steps (apart, order). Recipe.Includes, Executes, Allows, Below and
// Makes then answer for single files, and Unused lists the patterns that matched none.
package recipe
