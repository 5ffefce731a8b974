package session

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/env"
)

// dotEnv reads the variables of a project's .env; a missing file has none. A link that leaves the project is refused,
// because the project's tools would read another file of the user through it.
func dotEnv(project string) ([]env.Variable, error) {
	root, err := os.OpenRoot(project)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(".env", os.O_RDONLY|osfile.Nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.New(fault.Files, "%q is not a regular file", file.Name())
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, env.MaxDotEnv+1)) // more is refused
	if err != nil {
		return nil, err
	}
	all, err := env.ParseDotEnv(b)
	if err != nil {
		return nil, env.Invalid(".env", "line", value.Pos{}, err)
	}
	return all, nil
}
