// Package gen writes the manifest of the embedded library.
//
//	go generate ./ai/std
//
// It reads every file below .ai and writes manifest.yaml beside it: digests, sizes, and of the items refs and
// versions, by the library's own extractors. It refuses a file that is executable or has CR LF, an item with a
// problem, and what no manifest may list: the same tree gives the same bytes on every machine.
package gen

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// What the manifest says of the library as a whole. The version grows with what the items promise.
const (
	bundle      = "rye/std"
	version     = "0.1.0"
	description = "The library that every rye carries"
	license     = "MIT"

	extractors = "tools/rye/core/extractors/*/*_extractor.yaml"
)

// generate returns the manifest of a library, given as the content of its directory .ai.
func generate(library fs.FS) ([]byte, error) {
	kinds, err := readKinds(library)
	if err != nil {
		return nil, err
	}
	var files []manifest.File
	if err := fs.WalkDir(library, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := entry(library, kinds, name, d)
		files = append(files, f)
		return err
	}); err != nil {
		return nil, err
	}
	list := &manifest.FileList{BundleID: bundle, Version: version, Description: description, License: license}
	b, _, err := manifest.AppendFileList(nil, list, files)
	return b, err
}

// readKinds reads the library's own extractors.
func readKinds(library fs.FS) ([]*model.Kind, error) {
	names, _ := fs.Glob(library, extractors) // fails for other patterns only
	yaml, _ := parse.ByName("yaml")
	var kinds []*model.Kind
	for _, name := range names {
		content, err := fs.ReadFile(library, name)
		if err != nil {
			return nil, err
		}
		k, problems := model.ReadExtractor(yaml.Parse(content), id(name))
		if err := joined(name, problems); err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// id is what an item of the library is called.
func id(name string) string {
	return name[len("tools/") : len(name)-len(path.Ext(name))]
}

// entry returns what the manifest says of a file.
func entry(library fs.FS, kinds []*model.Kind, name string, d fs.DirEntry) (manifest.File, error) {
	info, err := d.Info()
	if err != nil {
		return manifest.File{}, err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 != 0 {
		return manifest.File{}, fmt.Errorf("%q is executable or no regular file", name)
	}
	content, err := fs.ReadFile(library, name)
	if err != nil {
		return manifest.File{}, err
	}
	if bytes.ContainsRune(content, '\r') {
		return manifest.File{}, fmt.Errorf("%q has a line that doesn't end with LF alone", name)
	}
	f := manifest.File{Path: ".ai/" + name, Digest: cas.Sum(content), Size: int64(len(content)), Mode: cas.File}
	for _, k := range kinds {
		ref, err := k.RefOf(name)
		if err != nil || !k.Marked(name, content) {
			continue
		}
		m := k.Read(ref, name, content)
		if !m.Marked {
			continue
		}
		f.Ref, f.Version = ref.String(), m.Version
		return f, joined(name, m.Problems)
	}
	return f, nil
}

// joined returns the problems of a file as one error, warnings too: the library has none.
func joined(name string, problems []*value.Problem) error {
	var all []error
	for _, p := range problems {
		all = append(all, fmt.Errorf("%q: %w", name, p))
	}
	return errors.Join(all...)
}
