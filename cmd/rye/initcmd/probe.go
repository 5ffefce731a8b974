package initcmd

import (
	"errors"
	"fmt"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// writable creates a setting's directory for this user alone, if it is missing, and writes to it, which finds a full
// or read-only disk. The error calls the directory name.
func writable(name string, s cli.Setting) error {
	if s.Err != nil {
		return s.Err
	}
	if err := os.MkdirAll(s.Value, 0o700); err != nil {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("the %s directory %q (%s) can't be made", name, s.Value, s.Origin)
		f.Exit = fault.ExitNo
		return f
	}
	return probe(name, s.Value)
}

// probe writes an empty file in a directory and removes it.
func probe(name, dir string) error {
	file, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("the %s directory %q can't be written to", name, dir)
		return f
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
