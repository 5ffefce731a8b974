package worktree

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// A fakeFolder has one file, whose stamp and bytes need not agree.
type fakeFolder struct {
	folder
	s     statcache.Stamp
	bytes string
}

func (f fakeFolder) open(string) (io.ReadCloser, statcache.Stamp, error) {
	return io.NopCloser(strings.NewReader(f.bytes)), f.s, nil
}

// TestOnlyWhatWasReadWholeIsRecorded: the stamp is taken first, and is no stamp of other bytes.
func TestOnlyWhatWasReadWholeIsRecorded(t *testing.T) {
	var s cas.Memory
	b, err := s.Batch(t.Context())
	must(t, err)
	m := &importer{ctx: t.Context(), batch: b, begin: statcache.Moment{Wall: 1e18}}
	m.Cache = statcache.Open(filepath.Join(t.TempDir(), "db"), statcache.Options{})
	for _, c := range []struct {
		size  int64
		dev   uint64
		bytes string
		want  bool
	}{
		{3, 7, "abc", true}, {3, 7, "abcd", false}, {3, 7, "ab", false}, {3, 8, "abc", false},
		{readWhole + 9, 7, strings.Repeat("x", readWhole+9), true},
		{readWhole + 8, 7, strings.Repeat("x", readWhole+9), false},
	} {
		d := &dir{f: fakeFolder{s: statcache.Stamp{Dev: c.dev, Ino: 1, Size: c.size, Mtime: 1, Ctime: 1},
			bytes: c.bytes}, info: folderInfo{dev: 7}}
		var f file
		must(t, m.readFile(newWorker(), d, &f))
		if recorded := f.stamp != (statcache.Stamp{}); recorded != c.want {
			t.Errorf("size %d, device %d, %d bytes: recorded %v", c.size, c.dev, len(c.bytes), recorded)
		}
		if f.digest != cas.Sum([]byte(c.bytes)) || f.size != int64(len(c.bytes)) {
			t.Errorf("size %d, %d bytes: another digest or size", c.size, len(c.bytes))
		}
	}
}
