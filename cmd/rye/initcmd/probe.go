// Write tests of directories, for rye doctor.

package initcmd

import (
	"errors"
	"fmt"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// writable creates a setting's directory, for this user only, if it is missing. It writes a file to it, which
// detects a full or read-only disk. name is the directory's name in errors.
func writable(name string, s cli.Setting) error {
	if s.Err != nil {
		return s.Err
	}
	if err := os.MkdirAll(s.Value, 0o700); err != nil {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("can't create the %s directory %q (%s)", name, s.Value, s.Origin)
		f.Exit = fault.ExitNo
		return f
	}
	return probe(name, s.Value)
}

// probe creates an empty file in a directory and removes it.
func probe(name, dir string) error {
	file, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("can't write to the %s directory %q", name, dir)
		return f
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
