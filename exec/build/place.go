package build

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// strays returns the files in a step's outputs that the new result lacks and the last one had. Other files that the
// new result lacks are an error.
func strays(step string, found, next, last Files) (gone []string, err error) {
	var strange []string
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if _, ok := next[path]; ok {
			continue
		}
		if found.same(last, path) {
			gone = append(gone, path)
		} else {
			strange = append(strange, path)
		}
	}
	if strange != nil {
		return nil, fault.New(fault.Conflict, "the outputs of the step %q hold %q, which the step didn't make", step,
			strange[0]).On("step", step).On("strays", strange).
			Permanent().Because(strange[:min(len(strange), fault.MaxLines)]...).
			Because("a build never removes what it can't make again: move these files away, or name other outputs")
	}
	return gone, nil
}

// place writes the files of a result into the project, and removes the others. Each file is written atomically.
func place(ctx context.Context, project string, src cas.Getter, found, next Files, gone []string) error {
	root, err := os.OpenRoot(project)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, path := range gone {
		if err := root.Remove(filepath.FromSlash(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removeEmpty(root, path)
	}
	for _, path := range slices.Sorted(maps.Keys(next)) {
		if found.same(next, path) {
			continue
		}
		if err := put(ctx, root, src, path, next[path]); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes the directories above a removed file while they are empty.
func removeEmpty(root *os.Root, path string) {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if root.Remove(filepath.FromSlash(path[:i])) != nil {
			return
		}
	}
}

// put writes one file. It hashes the bytes while copying, and renames the file into place only if they are right.
func put(ctx context.Context, root *os.Root, src cas.Getter, path string, entry cas.Entry) (err error) {
	name := filepath.FromSlash(path)
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	o, err := src.Get(ctx, entry.ID())
	if err != nil {
		return err
	}
	defer o.Close()
	mode := fs.FileMode(0o666)
	if entry.Mode == cas.Exec {
		mode = 0o777
	}
	return osfile.In{Root: root, Lazy: true}.Write(name, mode, false, func(f *os.File) error {
		_, err := io.Copy(f, o)
		return err
	})
}
