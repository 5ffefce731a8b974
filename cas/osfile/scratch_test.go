package osfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := Scratch{Dir: dir}
	s.Close()
	if _, err := os.Lstat(dir); err == nil {
		t.Error("made before anything was written")
	}
	for _, text := range []string{"one", "", "two"} {
		if err := s.Append([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, 4)
	if n, err := s.ReadAt(b, 2); n != 4 || err != nil || string(b) != "etwo" || s.End != 6 {
		t.Errorf("%d, %v, %q, %d", n, err, b, s.End)
	}
	s.Close()
	if all, err := os.ReadDir(dir); len(all) > 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	if err := s.Append([]byte("x")); err == nil {
		t.Error("written to a closed file")
	}
}
