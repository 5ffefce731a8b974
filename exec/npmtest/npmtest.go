// Package npmtest installs npm packages for tests, each once for all tests of a machine.
package npmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/osfile"
)

// Node is a version of Node for programs that need a newer one than the system has.
const Node = "node@24.21.0"

// Install installs a package, such as "@modelcontextprotocol/inspector@2.12.0", and returns its directory. Packages
// that it needs lie beside it. The version is exact.
func Install(t testing.TB, spec string) string {
	t.Helper()
	name := spec[:strings.LastIndexByte(spec, '@')]
	all := filepath.Join(os.TempDir(), "rye-peers-npm-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(all, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(all, strings.NewReplacer("/", "_", "@", "_").Replace(spec))
	unlock, err := osfile.LockFile(t.Context(), dir+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	at := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
	if _, err := os.Stat(at); err == nil {
		return at
	}
	// What is installed by half has another name.
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--prefix", half, "--save-exact", "--no-audit",
		"--no-fund", "--loglevel=error", spec)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if err := os.Rename(half, dir); err != nil {
		t.Fatal(err)
	}
	return at
}

// Bin is the directory of that Node, for the beginning of PATH.
func Bin(t testing.TB) string {
	t.Helper()
	return filepath.Join(Install(t, Node), "bin")
}
