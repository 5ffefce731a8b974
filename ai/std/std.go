// Package std is the library that every rye carries: the bundle rye/std, as data.
//
// # The tree
//
// What is in .ai here is embedded in the binary, and is read as any other space is:
//
//	tools/rye/core/extractors/KIND/KIND_extractor.yaml   how the items of a kind are read, checked, searched
//	tools/rye/core/primitives/NAME.yaml                  the last links of chains: what rye itself does
//	tools/rye/core/runtimes/NAME.yaml                    the links before them: which interpreter, and how
//	tools/rye/core/runtimes/lib/LANGUAGE/_launch.*       what a runtime has its interpreter start
//	tools/rye/core/templates/_KIND.EXT                   what a new item begins as
//	tools/rye/core/pipelines/_NAME.yml                   what "rye init --ci" writes for other services
//	tools/rye/file-system/NAME.star                      tools for the files of a project
//	config/NAME.yaml                                     what the kernel goes by, which projects put their own over
//	knowledge/rye/TOPIC.md                               the documentation
//
// Names that begin with "_" are assets, as in every space. Nothing here is executable: interpreters are given files.
//
// # The manifest
//
// manifest.yaml beside the tree is a file list (package manifest) of all of it, with the paths below the directory
// that holds .ai, and of items the refs and versions. It is made by "go generate ./ai/std" and has no signature:
// who has the binary has both, so the items are admitted as what was read from it, under the signer "builtin". The
// manifest says what other places need to know: the digests that a lock pins, and the modes, which embedding loses.
//
// # Runtimes
//
// A runtime is a tool whose executor is a primitive: rye/core/primitives/starlark, with a config alone, or
// rye/core/primitives/subprocess, with
//
//	env_config     interpreter: type, var and fallback, and where to look by type (venv_python: venv_path,
//	               node_modules: search_paths, system_binary: binary); env: variables to set
//	config         command, args, cwd, input_data, timeout, as the primitive's config_schema has them
//	anchor         which directory belongs to a tool of several files, and which variables name it (env_paths)
//
// Who runs it fills in ${NAME}, a variable of the environment that env_config makes, and {name}: of these are used
// here tool_path (the tool's file), tool_dir, project_path, params_json (the parameters as a JSON object), anchor_path
// (the anchor's root), and runtime_lib (the runtime's directory and the anchor's lib, whether or not the anchor is
// active). What is filled in stays one argument, or the input, and is not looked at again.
//
// A launcher is named by runtime_lib. It gives the interpreter a module path of the tool's own directories, which
// are in RYE_MODULE_PATH, so that no module of the working directory, a parent, the home directory or the machine
// is loaded instead of a signed one. The first lines of each say what it promises.
//
// # Templates
//
// In a template {{id}}, {{name}}, {{category}} and {{description}} are replaced, wherever they stand, by plain text;
// name is the last segment of the id and category what is before it, perhaps nothing. A description fits everywhere
// if it is one line of visible text, without space around it, that has none of " \ < > & and no "{{".
//
// # Pipelines
//
// In a file for another service <<version>> is replaced by the version of rye to install, and <<directory>> by the
// project's directory in the repository. <<-C>> is the flag for that directory, with a space behind it, and <<prefix>>
// what paths of the project begin with, as a regular expression; both are empty for a project at the root. A step's
// exit status is rye's: steps run under "bash -eo pipefail", and a report that is written to a file hides none.
package std

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

//go:generate go test ./gen -run TestUpToDate -update

//go:embed all:.ai
var library embed.FS

//go:embed manifest.yaml
var list string

// prefix is what the paths of the manifest have before those of FS.
const prefix = ".ai/"

// FS returns the library as the content of a directory .ai, as in "tools/rye/core/primitives/subprocess.yaml". It is
// safe for use by many goroutines.
func FS() fs.FS {
	// The error is about paths that are none.
	sub, _ := fs.Sub(library, strings.TrimSuffix(prefix, "/"))
	return sub
}

// Manifest returns the bytes of the manifest.
func Manifest() []byte { return []byte(list) }

// Files returns what the manifest says. The paths are those of FS behind ".ai/".
func Files() (*manifest.FileList, []manifest.File, error) { return manifest.ParseFileList(Manifest()) }

// An Error says which file of the library is not what the manifest lists. Digests are zero where there is no file,
// or no entry.
type Error struct {
	Path            string // as in the manifest
	Expected, Found cas.Digest
}

func (e *Error) Error() string {
	switch {
	case e.Expected.IsZero():
		return fmt.Sprintf("std: %q is not in the manifest", e.Path)
	case e.Found.IsZero():
		return fmt.Sprintf("std: %q is missing", e.Path)
	}
	return fmt.Sprintf("std: %q is %s, and %s in the manifest", e.Path, e.Found, e.Expected)
}

// Check returns nil if the library is what its manifest says: every file, and no other. What is wrong with a file is
// an *Error, all of them joined.
func Check() error { return check(FS(), Manifest()) }

func check(tree fs.FS, list []byte) error {
	_, files, err := manifest.ParseFileList(list)
	if err != nil {
		return err
	}
	listed := make(map[string]*manifest.File, len(files))
	for i := range files {
		listed[files[i].Path] = &files[i]
	}
	var wrong []error
	if err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		path = prefix + path
		e := &Error{Path: path, Found: cas.Sum(content)}
		if f := listed[path]; f != nil {
			e.Expected = f.Digest
		}
		if e.Expected != e.Found {
			wrong = append(wrong, e)
		}
		delete(listed, path)
		return nil
	}); err != nil {
		return err
	}
	for _, f := range files {
		if listed[f.Path] != nil {
			wrong = append(wrong, &Error{Path: f.Path, Expected: f.Digest})
		}
	}
	return errors.Join(wrong...)
}
