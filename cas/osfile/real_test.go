package osfile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestReal: a path is resolved as the standard library does it, with and without links on the way.
func TestReal(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	paths := []string{"", ".", "..", "a", "/", dir, dir + "/a/b", dir + "/a/../a/./b", dir + "//a", dir + "/none",
		dir + "/a/b/none"}
	if runtime.GOOS != "windows" {
		for name, to := range map[string]string{"link": "a", "a/up": "..", "loop": "loop", "lost": "none"} {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, dir+"/"+name, dir+"/"+name+"/b", dir+"/"+name+"/../a")
		}
	}
	t.Chdir(dir)
	for _, path := range paths {
		want, wantErr := filepath.EvalSymlinks(path)
		got, err := Real(path)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%q: %q, %v; want %q, %v", path, got, err, want, wantErr)
		}
	}
}
