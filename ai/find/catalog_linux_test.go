package find

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/statcache"
)

// TestCatalogStat: a file of its space's file system is known again by all of its stamp, one of another is never sure.
func TestCatalogStat(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tools", "mow.yaml")
	text :=
		"executor_id: rye/core/primitives/subprocess\ntool_type: program\nversion: 1.0.0\ndescription: Mows the lawn\n"
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	space, err := ai.OpenDir(dir, "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	view, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{space}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	stamp := statcache.StampOf(info)
	c := newCatalog(view, "test")
	for _, device := range []uint64{stamp.Dev, stamp.Dev + 1} {
		c.sure[space] = device
		files, err := c.Files(t.Context())
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		got := files[0].Stat
		if got.Sure != (device == stamp.Dev) {
			t.Errorf("a space on device %d, a file on %d: sure %v", device, stamp.Dev, got.Sure)
		}
		if (statcache.Stamp{Dev: got.Dev, Ino: got.Inode, Size: got.Size, Mtime: got.Mtime, Ctime: got.Ctime,
			Mode: got.Mode}) != stamp {
			t.Errorf("got %+v, want %+v", got, stamp)
		}
	}
}
