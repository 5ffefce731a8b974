package landlock

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHandled: each version gets the rights that it knows, and no others.
func TestHandled(t *testing.T) {
	for version, want := range map[int]uint64{1: 0x1fff, 2: 0x3fff, 3: 0x7fff, 4: 0x7fff, 5: 0xffff, 6: 0xffff,
		7: 0xffff, 99: 0xffff} {
		if got := handled(version); got != want || WriteRights(version)&^want != 0 ||
			WriteRights(version)&(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR|unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK|
				unix.LANDLOCK_ACCESS_FS_IOCTL_DEV) != 0 {
			t.Errorf("%d: %#x, want %#x; to write %#x", version, got, want, WriteRights(version))
		}
	}
	now, err := Version()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/f", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= now; version++ { // the kernel accepts rulesets of older versions
		set, err := NewRuleset(version, []Rule{{Path: []byte(dir), Write: true}, {Path: []byte(dir + "/f")},
			{Path: []byte("/no/such"), System: true}}, nil, false)
		if err != nil {
			t.Errorf("%d: %v", version, err)
			continue
		}
		set.Close()
	}
	if ConnectRights(firstNet-1) != 0 || ConnectRights(firstNet) != unix.LANDLOCK_ACCESS_NET_CONNECT_TCP {
		t.Error("rights over a port")
	}
	if _, err := NewRuleset(now, []Rule{{Path: []byte(dir + "/none")}}, nil, false); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := NewRuleset(now, nil, r, false); err == nil || !strings.Contains(err.Error(), "for the program") {
		t.Error(err)
	}
	if err := os.Symlink("f", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRuleset(now, []Rule{{Path: []byte(dir + "/link")}}, nil, false); !errors.Is(err, unix.ELOOP) {
		t.Error(err)
	}
}
