// Package std is the library in every rye: the bundle rye/std, as data.
//
// # The tree
//
// The files in .ai here are embedded in the binary and read like any other space:
//
//	tools/rye/core/extractors/KIND/KIND_extractor.yaml   how the items of a kind are read, checked, searched
//	tools/rye/core/primitives/NAME.yaml                  the last links of chains: the functions of rye itself
//	tools/rye/core/runtimes/NAME.yaml                    the links before them: an interpreter and its arguments
//	tools/rye/core/runtimes/lib/LANGUAGE/_launch.*       the launcher that the runtime's interpreter starts
//	tools/rye/core/templates/_KIND.EXT                   templates for new items
//	tools/rye/core/pipelines/_NAME.yml                   files that "rye init --ci" writes for CI services
//	tools/rye/file-system/NAME.star                      tools for the files of a project
//	config/NAME.yaml                                     configuration of the kernel, which projects can override
//	knowledge/rye/TOPIC.md                               the documentation
//
// Names that begin with "_" are assets, as in every space. Nothing here is executable: interpreters receive files.
//
// # The manifest
//
// manifest.yaml next to the tree is a file list (package manifest) of the whole tree, with the paths below the
// directory that holds .ai, and with the refs and versions of items. "go generate ./ai/std" makes it, without a
// signature: the binary has both, so its items are admitted under the signer "builtin". The manifest has the
// digests that a lock pins and the modes, which embedding loses.
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
// The caller of a runtime replaces ${NAME}, a variable of the environment from env_config, and {name}. Used here
// are tool_path (the tool's file), tool_dir, project_path, params_json (the parameters as a JSON object),
// anchor_path (the anchor's root), and runtime_lib (the runtime's directory and the anchor's lib, whether or not
// the anchor is active). An inserted value remains one argument, or the input, and is not expanded again.
//
// runtime_lib names a launcher. It gives the interpreter a module path of the tool's own directories, which are in
// RYE_MODULE_PATH. So no module of the working directory, a parent, the home directory or the machine replaces a
// signed one. The first lines of each launcher state its promise.
//
// # Templates
//
// In a template {{id}}, {{name}}, {{category}} and {{description}} are replaced by plain text everywhere. name is
// the last segment of the id, and category the part before it, which may be empty. A description fits everywhere if
// it is one line of visible text, without surrounding space, without any of " \ < > & and without "{{".
//
// # Pipelines
//
// In a file for a CI service, <<version>> is replaced by the version of rye to install, and <<directory>> by the
// project's directory in the repository. <<-C>> is the flag for that directory, with a space after it, and
// <<prefix>> the prefix of the project's paths, as a regular expression; both are empty for a project at the root.
// A step has the exit status of rye: steps run under "bash -eo pipefail", and writing a report to a file hides no
// failure.
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

// prefix is the prefix of the manifest's paths before those of FS.
const prefix = ".ai/"

// FS returns the library as the content of a directory .ai, such as "tools/rye/core/primitives/subprocess.yaml". It
// is safe for concurrent use.
func FS() fs.FS {
	// Only an invalid path is an error.
	sub, _ := fs.Sub(library, strings.TrimSuffix(prefix, "/"))
	return sub
}

// Manifest returns the bytes of the manifest.
func Manifest() []byte { return []byte(list) }

// Files returns the parsed manifest. Its paths are those of FS after ".ai/".
func Files() (*manifest.FileList, []manifest.File, error) { return manifest.ParseFileList(Manifest()) }

// An Error is a file of the library that differs from the manifest. A zero digest means that the file or its entry
// is missing.
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

// Check compares the library with its manifest: every file, and no other. It returns an *Error for each difference,
// joined.
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
