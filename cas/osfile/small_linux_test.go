package osfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// Small files are read whole, whatever size the system tells; what is larger or no file is refused, and a pipe isn't
// waited for.
func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		most int64
		want string
		code fault.Code
	}{
		{file, 4, "four", ""}, {file, 1 << 20, "four", ""}, {file, 3, "", fault.Limit}, {dir, 10, "", fault.Files},
		{pipe, 10, "", fault.Files},
		{"/proc/self/stat", 3, "", fault.Limit}, {file + "x", 10, "", fault.Files},
	} {
		b, err := ReadSmall(c.path, c.most)
		if string(b) != c.want || (err == nil) != (c.code == "") || err != nil && fault.CodeOf(err) != c.code {
			t.Errorf("%s, at most %d: %q, %v", c.path, c.most, b, err)
		}
	}
	if b, err := ReadSmall("/proc/self/status", 1<<20); err != nil || !strings.Contains(string(b), "Threads:") {
		t.Errorf("a file that says it is empty: %q, %v", b, err)
	}
}
