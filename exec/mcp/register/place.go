package register

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// A Change is what a file in a project becomes.
type Change struct {
	Path          string
	Before, After []byte // the same if the server is there already
	mode          fs.FileMode
	missing       bool
}

// Plan says what the agent's file in a project becomes. Nothing is written.
func (c Client) Plan(project, program string, more []string) (*Change, error) {
	n := &Change{Path: filepath.Join(project, filepath.FromSlash(c.File)), mode: 0o644}
	if err := osfile.RefuseLinks(n.Path, project); err != nil {
		return nil, err
	}
	var err error
	if n.Before, err = n.read(); err != nil {
		return nil, err
	}
	n.After, err = c.Put(n.Before, program, more)
	return n, err
}

func (n *Change) read() ([]byte, error) {
	text, err := osfile.ReadIfThere("the configuration", n.Path, MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		n.missing = true
		return nil, nil
	}
	if fi, err := os.Stat(n.Path); err == nil {
		n.mode = fi.Mode().Perm()
	}
	return text, err
}

// Write writes the file. One that has changed since it was planned stays as it is.
func (n *Change) Write() error {
	missing := n.missing
	now, err := n.read()
	if err != nil {
		return err
	}
	if !bytes.Equal(now, n.Before) {
		return fault.New(fault.Conflict, "%q has changed meanwhile", n.Path).On("path", n.Path)
	}
	if err := os.MkdirAll(filepath.Dir(n.Path), 0o755); err != nil {
		return err
	}
	return osfile.WriteFile(n.Path, n.mode, missing, osfile.BytesOf(n.After))
}

// A Found is a server that an agent's file in a project starts.
type Found struct {
	Client Client
	Path   string
	Line   []string // the program and its arguments
	Err    error    // why the file can't be read, or the server can't start
}

// Look returns what the agents' files in a project start under the server's name. Path lists the directories of
// programs, as the variable PATH does.
func Look(project, path string) (all []Found) {
	for _, c := range clients {
		found := Found{Client: c, Path: filepath.Join(project, filepath.FromSlash(c.File))}
		text, err := osfile.ReadSmall(found.Path, MaxBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		there := true
		if err == nil {
			found.Line, there, err = c.Starts(text)
		}
		if err == nil && there {
			err = found.starts(path)
		}
		if found.Err = err; there || err != nil {
			all = append(all, found)
		}
	}
	return all
}

// starts looks for the program, and at how it is called.
func (f *Found) starts(path string) error {
	refuse := func(format string, args ...any) error {
		err := fault.New(fault.Config, format, args...).On("path", f.Path)
		return err.Try("rye mcp config " + f.Client.Name + " --write")
	}
	program := f.Line[0]
	byName := filepath.Base(program) == program
	if program == "" || byName && find(program, path) == "" || filepath.IsAbs(program) && !executable(program) {
		return refuse("%s starts the program %q, which isn't there", f.Client.File, program)
	}
	if len(f.Line) < 3 || f.Line[1] != "mcp" || f.Line[2] != "serve" {
		return refuse("%s starts %q without \"mcp serve\"", f.Client.File, program)
	}
	return nil
}

// Program is how a file names this program, whose path is self: by its name if that finds it, so that the file is
// good for others too, else by its path.
func Program(self, path string) string {
	name := Name
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	was, err := os.Stat(self)
	if err != nil {
		return Name
	}
	if is, err := os.Stat(find(name, path)); err == nil && os.SameFile(was, is) {
		return Name
	}
	return self
}

// find looks for a program; "" if there is none.
func find(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if at := filepath.Join(dir, name); filepath.IsAbs(at) && executable(at) {
			return at
		}
	}
	return ""
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && (runtime.GOOS == "windows" || fi.Mode()&0o111 != 0)
}
