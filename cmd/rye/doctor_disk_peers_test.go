//go:build peers && linux

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDoctorFullDisk: doctor sees that the disk of the state is full, where an empty file can still be created, and
// that there is room again.
func TestDoctorFullDisk(t *testing.T) {
	disk, home := mount(t, 2<<10), t.TempDir()
	leave(t, disk, 0)
	check := func() (line string, err error) {
		cmd := exec.Command("rye", "doctor")
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "XDG_STATE_HOME=" + disk, "GOCOVERDIR=" + coverDir()}
		out, err := cmd.Output()
		for l := range strings.Lines(string(out)) {
			if f := strings.Fields(l); len(f) > 1 && f[1] == "disk" {
				line = l
			}
		}
		return line, err
	}
	if line, err := check(); err == nil || !strings.HasPrefix(line, "fail  disk ") ||
		!strings.Contains(line, "; 0 B free for state") {
		t.Errorf("full: %v, %q", err, line)
	}
	leave(t, disk, 1536)
	if line, err := check(); err != nil || !strings.HasPrefix(line, "warn  disk ") ||
		!strings.Contains(line, "; 1.5 MiB free for state") {
		t.Errorf("nearly full: %v, %q", err, line)
	}
}
