package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// ToWrite returns the path of a file to write, in an existing directory. It refuses links in a project: its authors
// chose where they lead.
func ToWrite(a *cli.App, name string) (string, error) {
	s := a.Absolute(cli.Setting{Value: name})
	if s.Err != nil {
		return "", s.Err
	}
	if err := RefuseLinks(a, s.Value); err != nil {
		return "", err
	}
	if fi, err := os.Stat(s.Value); err == nil && fi.IsDir() {
		return "", fault.New(fault.Validation, "%q is a directory; -o needs a file", name)
	}
	return s.Value, NoPlace(name, s.Value)
}

// NoPlace returns an error if the directory of a file to write is missing.
func NoPlace(name, path string) error {
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Files, "directory %q not found", filepath.Dir(name)).Missing().
			Try("mkdir -p " + fault.Quote(filepath.Dir(name))).From(err)
	}
	return nil
}
