package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// checkKeyPlaces refuses to sign as long as a private key lies in a tree that others get: the user's own, to which a
// link has led, or one in the project's .ai/keys, where a first rye may have been told to keep it.
func (a *app) checkKeyPlaces() error {
	if tree, dir := a.keysInTree(); tree != "" {
		return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("the keys are kept in %q, inside of the tree %q", dir, tree),
			Why:     []string{"a link leads there from the user space; whoever gets the tree gets the keys"},
			Hint:    []string{"USER_SPACE=DIR rye key import " + fault.Quote(filepath.Join(dir, "private_key.pem"))},
			Details: map[string]any{"reason": "key-in-tree", "path": dir}}
	}
	p, err := a.project()
	if err != nil {
		return nil // there is none, or what needs it says why
	}
	found := a.privateKeys(filepath.Join(p.dotAI(), "keys"))
	if len(found) == 0 {
		return nil
	}
	return strayKey(found[0])
}

// strayKey says that a private key lies in a project, and how to move it.
func strayKey(path string) *fault.Error {
	return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("a private key lies in the project: %q", path),
		Why:     []string{"whoever gets the project, or a bundle of it, could sign as its owner"},
		Hint:    []string{"rye key import " + fault.Quote(path) + " " + keyNameFor(path), "rm " + fault.Quote(path)},
		Details: map[string]any{"reason": "key-in-tree", "path": path}}
}

// keyNameFor makes a name to import a key by.
func keyNameFor(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	if name = slug(name); name == "" || name == "private_key" || key.CheckName(name) != nil {
		return "imported"
	}
	return name
}

// keysInTree returns the directory of keys and the tree it lies in, if links have led from the user space to a tree
// that is versioned or a project. What lies in the user space itself is where it should be, whatever is above.
func (a *app) keysInTree() (tree, dir string) {
	base := a.userBase()
	if base.err != nil {
		return "", ""
	}
	real, err := filepath.EvalSymlinks(base.value)
	if err != nil {
		return "", ""
	}
	dir, err = filepath.EvalSymlinks(filepath.Join(userSpace(base).value, "keys"))
	if err != nil || dir == filepath.Join(userSpace(setting{value: real}).value, "keys") {
		return "", ""
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, mark := range []string{".git", markerFile} {
			if _, err := os.Lstat(filepath.Join(at, mark)); err == nil {
				return at, dir
			}
		}
		if at == filepath.Dir(at) {
			return "", ""
		}
	}
}

// Bounds of the search for keys: it is a look, not a proof.
const (
	maxSearched = 20_000   // entries of directories
	maxStrays   = 10       // keys
	maxStray    = 16 << 10 // bytes of a file that may be one
)

// privateKeys returns the private keys at or below a directory that look like ones by their names, and all in
// directories called keys, but for the user's own. Links are not followed, and what can't be read is passed over.
func (a *app) privateKeys(dir string) (found []string) {
	own := ""
	if base := a.userBase(); base.err == nil {
		own = filepath.Join(userSpace(base).value, "keys")
	}
	searched := 0
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if searched++; searched > maxSearched || len(found) == maxStrays {
			return fs.SkipAll
		}
		switch {
		case err != nil:
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			if name := e.Name(); name == ".git" || name == "node_modules" || own != "" && sameFile(path, own) {
				return fs.SkipDir
			}
			return nil
		}
		name := strings.ToLower(e.Name())
		likely := filepath.Base(filepath.Dir(path)) == "keys" || strings.HasPrefix(name, "id_") || strings.HasSuffix(name, ".pem") ||
			strings.HasSuffix(name, ".key") || strings.HasSuffix(name, ".age")
		if !likely || !e.Type().IsRegular() {
			return nil
		}
		if b, err := readSmall(path, maxStray); err == nil && key.IsPrivate(b) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// checkStrays looks for private keys in the project.
func checkStrays(a *app) *finding {
	if tree, dir := a.keysInTree(); tree != "" {
		return &finding{Status: statusWarn, Detail: fmt.Sprintf("the keys are kept in %q, inside of the tree %q: nothing is signed with them", dir, tree)}
	}
	p, err := a.project()
	if errors.Is(err, errNoProject) || err != nil {
		return nil
	}
	found := a.privateKeys(p.root)
	if len(found) == 0 {
		return nil
	}
	f := bad(statusWarn, strayKey(found[0]))
	if more := len(found) - 1; more > 0 {
		f.Detail += fmt.Sprintf("; and %d more", more)
	}
	return &f
}
