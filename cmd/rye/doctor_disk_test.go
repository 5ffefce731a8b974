package main

import (
	"math"
	"testing"

	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/cmd/rye/paths"
)

// TestLeft: a full disk under rye's directories fails the check, one that is nearly full is a warning, and the hint
// makes room there.
func TestLeft(t *testing.T) {
	disk := func(bytes, files int64, places ...string) initcmd.Disk {
		return initcmd.Disk{Places: places, Bytes: bytes, Files: files}
	}
	const many = math.MaxInt64
	for _, test := range []struct {
		disks  []initcmd.Disk
		status paths.Status
		detail string
		hint   string
	}{
		{nil, paths.StatusOK, "unknown on this system", ""},
		{[]initcmd.Disk{disk(3<<30, many, "store", "state", "cache")}, paths.StatusOK,
			"3.0 GiB free for store, state, cache", ""},
		{[]initcmd.Disk{disk(100<<20, 1000, "store")}, paths.StatusOK, "100.0 MiB free for store", ""},
		{[]initcmd.Disk{disk(100<<20-1, many, "store")}, paths.StatusWarn, "100.0 MiB free for store",
			"rye store gc"},
		{[]initcmd.Disk{disk(3<<30, 999, "cache")}, paths.StatusWarn,
			"3.0 GiB free in at most 999 new files for cache", "rye cache clear"},
		{[]initcmd.Disk{disk(1<<20, many, "store", "cache")}, paths.StatusWarn, "1.0 MiB free for store, cache",
			"rye cache clear"},
		{[]initcmd.Disk{disk(1<<20-1, many, "state")}, paths.StatusFail, "1.0 MiB free for state",
			"df -h"},
		{[]initcmd.Disk{disk(3<<30, 15, "state")}, paths.StatusFail, "3.0 GiB free in at most 15 new files for state",
			"df -h"},
		// The worst disk decides, wherever it is in the list.
		{[]initcmd.Disk{disk(2<<20, many, "store"), disk(0, many, "cache"), disk(2<<20, many, "state")},
			paths.StatusFail, "2.0 MiB free for store; 0 B free for cache; 2.0 MiB free for state", "rye cache clear"},
	} {
		f := initcmd.Left(test.disks)
		if f.Status != test.status || f.Detail != test.detail || f.Hint != test.hint {
			t.Errorf("got %+v, want %s %q %q", f, test.status, test.detail, test.hint)
		}
	}
}
