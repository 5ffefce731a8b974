package paths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
)

// KeysDir returns the directory of this user's keys.
func KeysDir(a *cli.App) (key.Dir, error) {
	s := cli.UserSpace(a.UserBase())
	if s.Err != nil {
		return key.Dir{}, s.Err
	}
	return key.OpenDir(filepath.Join(s.Value, "keys")), nil
}

// Short returns the digits of a fingerprint that messages show.
func Short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }

// CheckKeyPlaces refuses to sign while a private key lies in a tree that others receive: the user's own, which a link
// has put there, or one in the project's .ai/keys, where the first rye could keep keys.
func CheckKeyPlaces(app *cli.App) error {
	if tree, dir := keysInTree(app); tree != "" {
		return fault.New(fault.Denied, "the keys are kept in %q, inside of the tree %q", dir, tree).
			Because("a link leads there from the user space; every copy of the tree has the keys").
			Try("USER_SPACE=\"$(mktemp -d)\" rye key import "+fault.Quote(filepath.Join(dir, "private_key.pem"))).
			On("reason", "key-in-tree").On("path", dir)
	}
	p, err := Paths(app).OpenProject()
	if err != nil {
		return nil // no project, or another step reports the error
	}
	found := privateKeys(app, filepath.Join(p.DotAI(), "keys"))
	if len(found) == 0 {
		return nil
	}
	return strayKey(found[0])
}

// strayKey is the error for a private key in a project, with the command that moves it.
func strayKey(path string) *fault.Error {
	return fault.New(fault.Denied, "a private key lies in the project: %q", path).
		Because("anyone with a copy of the project, or a bundle of it, could sign as its owner").
		Try("rye key import "+fault.Quote(path)+" "+key.ImportName(path), "rm "+fault.Quote(path)).
		On("reason", "key-in-tree").On("path", path)
}

// keysInTree returns the directory of keys and the project or versioned tree that it lies in, if links lead there
// from the user space. Keys in the user space itself are always fine.
func keysInTree(a *cli.App) (tree, dir string) {
	base := a.UserBase()
	if base.Err != nil {
		return "", ""
	}
	real, err := filepath.EvalSymlinks(base.Value)
	if err != nil {
		return "", ""
	}
	dir, err = filepath.EvalSymlinks(filepath.Join(cli.UserSpace(base).Value, "keys"))
	if err != nil || dir == filepath.Join(cli.UserSpace(cli.Setting{Value: real}).Value, "keys") {
		return "", ""
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, mark := range []string{".git", workspace.MarkerFile} {
			if _, err := os.Lstat(filepath.Join(at, mark)); err == nil {
				return at, dir
			}
		}
		if at == filepath.Dir(at) {
			return "", ""
		}
	}
}

// Bounds of the search for keys, which may miss some.
const (
	maxSearched = 20_000   // entries of directories
	maxStrays   = 10       // keys
	maxStray    = 16 << 10 // bytes of a file that may be one
)

// privateKeys returns the files at or below a directory that look like private keys by name, and all files in
// directories called keys, except the user's own. It doesn't follow links and skips unreadable files.
func privateKeys(a *cli.App, dir string) (found []string) {
	own := ""
	if base := a.UserBase(); base.Err == nil {
		own = filepath.Join(cli.UserSpace(base).Value, "keys")
	}
	searched := 0
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if searched++; searched > maxSearched || len(found) == maxStrays {
			return fs.SkipAll
		}
		switch {
		case err != nil:
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if name := entry.Name(); name == ".git" || name == "node_modules" || own != "" && sameFile(path, own) {
				return fs.SkipDir
			}
			return nil
		}
		name := strings.ToLower(entry.Name())
		likely := filepath.Base(filepath.Dir(path)) == "keys" || strings.HasPrefix(name, "id_") ||
			strings.HasSuffix(name, ".pem") ||
			strings.HasSuffix(name, ".key") || strings.HasSuffix(name, ".age")
		if !likely || !entry.Type().IsRegular() {
			return nil
		}
		if b, err := osfile.ReadSmall(path, maxStray); err == nil && key.IsPrivate(b) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// sameFile reports whether two paths lead to one file. Missing files are never the same.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// CheckStrays looks for private keys in the project.
func CheckStrays(a *cli.App) *Finding {
	if tree, dir := keysInTree(a); tree != "" {
		return &Finding{Status: StatusWarn, Detail: fmt.Sprintf("the keys are kept in %q, inside of the tree %q: "+
			"nothing is signed with them", dir, tree)}
	}
	p, err := Paths(a).OpenProject()
	if errors.Is(err, workspace.ErrNoProject) || err != nil {
		return nil
	}
	found := privateKeys(a, p.Root)
	if len(found) == 0 {
		return nil
	}
	f := Bad(StatusWarn, strayKey(found[0]))
	if more := len(found) - 1; more > 0 {
		f.Detail += fmt.Sprintf("; and %d more", more)
	}
	return &f
}

// MaxKeyFile is the largest size of a file of keys, encrypted ones included.
const MaxKeyFile = 64 << 10

// ReadArgument reads a small file named on the command line; "-" is standard input.
func ReadArgument(ctx context.Context, a *cli.App, path string) ([]byte, error) {
	if path != "-" {
		return osfile.ReadSmall(path, MaxKeyFile)
	}
	b, err := io.ReadAll(io.LimitReader(a.Input(ctx), MaxKeyFile+1))
	if err == nil && len(b) > MaxKeyFile {
		err = errors.New("standard input is too long for a key")
	}
	return b, err
}

// ReadPublic reads a public key: 43 characters, or a file.
func ReadPublic(ctx context.Context, a *cli.App, arg string) (key.Public, error) {
	public, asText := key.ParsePublic(arg)
	if asText == nil {
		return public, nil
	}
	pem, err := ReadArgument(ctx, a, arg)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, `./\`) {
		return key.Public{}, fault.Wrap(asText, "%q is neither a file nor a public key: %s", arg, asText).
			Try("rye key list", "rye trust list")
	}
	if err != nil {
		return key.Public{}, err
	}
	public, err = key.ParsePublicPEM(pem)
	if err == nil {
		return public, nil
	}
	if p, err := key.ParsePublic(strings.TrimSpace(string(pem))); err == nil {
		return p, nil
	}
	if key.IsLocked(pem) || isPrivate(pem) {
		return key.Public{}, fault.New(fault.Validation, "%q is a private key: ask its owner for the public half",
			arg).Try("rye key export").Because("anyone with a private key can sign as its owner")
	}
	return key.Public{}, fmt.Errorf("%q: %w", arg, err)
}

func isPrivate(pem []byte) bool {
	_, err := key.ParsePrivatePEM(pem)
	return err == nil
}
