package worktree

import (
	"io"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
)

func FuzzValue(f *testing.F) {
	key := keyOf(1, "/some/where")
	d := &dir{files: []file{{name: "a", stamp: stamp{ino: 1, size: 2, mtime: 3, ctime: 4, mode: 5}}, {name: "b"}}, subs: []sub{{name: "c"}}}
	seed := appendValue(nil, d, cas.EmptyTree, Moment{1, 2, 3})
	f.Add(seed)
	f.Add(seed[:valueHead])
	f.Fuzz(func(t *testing.T, b []byte) {
		if openValue(key, b).b != nil {
			t.Fatal("a value with another sum")
		}
		if len(b) < sumSize {
			return
		}
		b = append([]byte(nil), b...)
		seal(key, b)
		v := openValue(key, b)
		if v.b == nil {
			return
		}
		// What is accepted is what appendValue makes of what was read.
		again := new(dir)
		r := v.records()
		for ; r.more(); r.next() {
			rec := v.record(int32(r.at))
			fl := file{name: string(r.name()), stamp: stamp{
				ino: order.Uint64(rec), size: int64(order.Uint64(rec[recordSize:])), mtime: int64(order.Uint64(rec[recordMtime:])),
				ctime: int64(order.Uint64(rec[recordCtime:])), mode: order.Uint32(rec[recordMode:]),
			}}
			rec.digest(&fl.digest)
			if fl.stamp == (stamp{}) {
				return // never written
			}
			if !rec.matches(&fl.stamp) {
				t.Fatal("a record doesn't match its own stamp")
			}
			again.files = append(again.files, fl)
		}
		r.left, r.head = order.Uint32(v.b[valueDirs:]), dirHead
		for ; r.more(); r.next() {
			again.subs = append(again.subs, sub{name: string(r.name()), digest: cas.Digest(r.b[r.at : r.at+cas.Size])})
		}
		if !v.sameDirs(again.subs) {
			t.Fatal("the directories aren't the same as themselves")
		}
		out := appendValue(nil, again, v.tree(), v.written())
		order.PutUint32(out[valueDay:], v.day())
		seal(key, out)
		if string(out) != string(b) {
			t.Fatalf("another value:\n%x\n%x", out, b)
		}
	})
}

func TestRecordMatches(t *testing.T) {
	was := stamp{dev: 9, ino: 1, size: 2, mtime: 3, ctime: 4, mode: 5}
	d := &dir{files: []file{{name: "a", stamp: was}}}
	r := value{appendValue(nil, d, cas.EmptyTree, Moment{})}.record(valueHead)
	if !r.matches(&was) {
		t.Error("not itself")
	}
	for i, change := range []func(s *stamp){
		func(s *stamp) { s.ino++ }, func(s *stamp) { s.size++ }, func(s *stamp) { s.mtime++ }, func(s *stamp) { s.ctime++ }, func(s *stamp) { s.mode++ },
	} {
		is := was
		change(&is)
		if r.matches(&is) {
			t.Errorf("change %d is not noticed", i)
		}
	}
}

// A fakeFolder has one file, whose stamp and bytes need not agree.
type fakeFolder struct {
	folder
	s     stamp
	bytes string
}

func (f fakeFolder) open(string) (io.ReadCloser, stamp, error) {
	return io.NopCloser(strings.NewReader(f.bytes)), f.s, nil
}

// TestOnlyWhatWasReadWholeIsRecorded: the stamp is taken first, and is no stamp of other bytes.
func TestOnlyWhatWasReadWholeIsRecorded(t *testing.T) {
	var s cas.Memory
	b, err := s.Batch(t.Context())
	must(t, err)
	m := &importer{ctx: t.Context(), batch: b, begin: Moment{Wall: 1e18}}
	m.Cache = OpenCache("", CacheOptions{})
	for _, c := range []struct {
		size  int64
		dev   uint64
		bytes string
		want  bool
	}{
		{3, 7, "abc", true}, {3, 7, "abcd", false}, {3, 7, "ab", false}, {3, 8, "abc", false},
		{readWhole + 9, 7, strings.Repeat("x", readWhole+9), true}, {readWhole + 8, 7, strings.Repeat("x", readWhole+9), false},
	} {
		d := &dir{f: fakeFolder{s: stamp{dev: c.dev, ino: 1, size: c.size, mtime: 1, ctime: 1}, bytes: c.bytes}, info: folderInfo{dev: 7}}
		var f file
		must(t, m.readFile(newWorker(), d, &f))
		if recorded := f.stamp != (stamp{}); recorded != c.want {
			t.Errorf("size %d, device %d, %d bytes: recorded %v", c.size, c.dev, len(c.bytes), recorded)
		}
		if f.digest != cas.Sum([]byte(c.bytes)) || f.size != int64(len(c.bytes)) {
			t.Errorf("size %d, %d bytes: another digest or size", c.size, len(c.bytes))
		}
	}
}
