package initcmd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

// A Disk is a file system that has directories of rye, and what this user can still write there.
type Disk struct {
	Places []string // names of the directories
	Bytes  int64
	Files  int64 // new files; math.MaxInt64 on a file system without a fixed number
	device uint64
}

// Below these, a disk is low or full: a call needs some KiB and a few files, a download much more.
const (
	lowBytes, fullBytes = 100 << 20, 1 << 20
	lowFiles, fullFiles = 1000, 16
)

// checkDisk reports what is left on the disks of the store, the state and the cache.
func checkDisk(_ context.Context, a *cli.App) paths.Finding {
	var disks []Disk
	for _, place := range []struct {
		name string
		cli.Setting
	}{{"store", a.Store()}, {"state", a.Dir(cli.StatePlace)}, {"cache", a.Dir(cli.CachePlace)}} {
		if place.Err != nil {
			continue // other checks report it
		}
		d, ok := diskOf(existing(place.Value))
		if !ok {
			continue
		}
		d.Places = []string{place.name}
		if i := slices.IndexFunc(disks, func(o Disk) bool { return o.device == d.device }); i >= 0 {
			disks[i].Places = append(disks[i].Places, place.name)
		} else {
			disks = append(disks, d)
		}
	}
	return Left(disks)
}

// existing returns the nearest directory of a path that exists.
func existing(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// Left returns the finding for the disks of rye's directories: a failure if one of them is full, a warning if it will
// be soon.
func Left(disks []Disk) paths.Finding {
	if len(disks) == 0 {
		return paths.Good("unknown on this system")
	}
	finding := paths.Finding{Status: paths.StatusOK}
	var left []string
	for _, d := range disks {
		text := cli.ByteSize(float64(d.Bytes)) + " free"
		if d.Files < lowFiles {
			text += " in at most " + fault.Count(d.Files, "new file")
		}
		text += " for " + strings.Join(d.Places, ", ")
		status := paths.StatusOK
		switch {
		case d.Bytes < fullBytes, d.Files < fullFiles:
			status = paths.StatusFail
		case d.Bytes < lowBytes, d.Files < lowFiles:
			status = paths.StatusWarn
		}
		left = append(left, text)
		if status == paths.StatusOK || finding.Status == paths.StatusFail || status == finding.Status {
			continue
		}
		finding.Status, finding.Hint = status, "df -h"
		switch {
		case slices.Contains(d.Places, "cache"):
			finding.Hint = "rye cache clear"
		case slices.Contains(d.Places, "store"):
			finding.Hint = "rye store gc"
		}
	}
	finding.Detail = strings.Join(left, "; ")
	return finding
}
