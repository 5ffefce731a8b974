package workspace

import (
	"cmp"
	"slices"
	"sync"
	"time"

	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// A Young is a version that was left out because it is too new.
type Young struct {
	Bundle, Version string
	Since           time.Time // when it became public, at the latest
}

// young collects what was left out. It is safe for concurrent use.
type young struct {
	mu  sync.Mutex
	all []Young
}

func (y *young) add(id, version string, since time.Time) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.all = append(y.all, Young{id, version, since})
}

// Over returns of each bundle of a lock the newest version that was left out, if it is newer than the locked one.
func (y *young) Over(lock *lockfile.Lock) []Young {
	y.mu.Lock()
	defer y.mu.Unlock()
	newest := map[string]Young{}
	for _, v := range y.all {
		locked := lock.Bundle(v.Bundle)
		if locked == nil {
			continue
		}
		than := cmp.Or(newest[v.Bundle].Version, locked.Version)
		if than != v.Version && manifest.NewestVersion([]string{than, v.Version}) == v.Version {
			newest[v.Bundle] = v
		}
	}
	var over []Young
	for _, v := range newest {
		over = append(over, v)
	}
	slices.SortFunc(over, func(a, b Young) int { return cmp.Compare(a.Bundle, b.Bundle) })
	return over
}
