package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/rye-build/rye/cas"
)

// This file reads registries that are directories of package files.

const maxFiles = 100_000

// directory returns the files of a directory with this extension, by the digest that their registry uses.
func (r *Registry) directory(ctx context.Context, where, extension string) (map[string]place, error) {
	return r.once(where+"\x00"+extension, func() (map[string]place, error) {
		root, err := os.OpenRoot(r.path(where))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		dir, err := root.Open(".")
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		entries, err := dir.ReadDir(maxFiles + 1)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if len(entries) > maxFiles {
			return nil, fmt.Errorf("has more than %d files", maxFiles)
		}
		found := map[string]place{}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), extension) || !entry.Type().IsRegular() {
				continue
			}
			algorithm := "sha512"
			if extension == ".whl" {
				algorithm = "sha256"
			}
			sum, err := r.sumFile(ctx, root, entry.Name(), algorithm)
			if err != nil {
				return nil, err
			}
			found[sum] = place{entry.Name(), entry.Name()}
		}
		return found, nil
	})
}

func (r *Registry) sumFile(ctx context.Context, root *os.Root, name, algorithm string) (string, error) {
	f, err := regular(root, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := newHash(algorithm)
	_, err = io.Copy(h, cas.Until(ctx, io.LimitReader(f, maxFile)))
	return algorithm + ":" + hex.EncodeToString(h.Sum(nil)), err
}

// openFile opens a file of a directory.
func (r *Registry) openFile(where, name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(r.path(where))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return regular(root, name)
}

// regular opens a regular file. It refuses a FIFO, which would wait for a writer.
func regular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	return root.Open(name)
}

func newHash(algorithm string) hash.Hash {
	if algorithm == "sha256" {
		return sha256.New()
	}
	return sha512.New()
}
