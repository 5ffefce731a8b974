package statcache

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
)

func someDir() *Dir {
	return &Dir{
		Dev: 7, Path: "/some/where", Tree: cas.EmptyTree,
		Files: []File{{"a", Stamp{Dev: 7, Ino: 1, Size: 2, Mtime: 3, Ctime: 4, Mode: 5}, cas.Sum([]byte("a"))},
			{Name: "b", Stamp: Stamp{Dev: 7, Ino: 1}}},
		Subs: []Sub{{"c", cas.Sum([]byte("c"))}, {Name: "d"}},
	}
}

// dirOf returns what k is what was remembered of.
func dirOf(k *Known, path string) *Dir {
	d := &Dir{Dev: k.dev, Path: path, Tree: k.Tree(), Subs: slices.Collect(k.Subs())}
	for r := range k.Files() {
		d.Files = append(d.Files, File{string(r.Name()), r.Stamp(), r.Digest()})
	}
	return d
}

// says reports whether k is what was remembered of d.
func says(k *Known, d *Dir) bool { return k != nil && reflect.DeepEqual(dirOf(k, d.Path), d) }

// FuzzDir: what is accepted is what encode makes of what was read.
func FuzzDir(f *testing.F) {
	d, now := someDir(), Moment{Wall: 1, Up: 2, Boot: 3}
	seed := d.encode(now)
	f.Add(seed)
	f.Add(seed[:valueHead])
	f.Add((&Dir{}).encode(Moment{}))
	if k := (&Known{d.Dev, seed}); !wellFormed(seed) || k.written() != now || !says(k, d) {
		f.Fatalf("%+v", k)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !wellFormed(b) {
			return
		}
		k := &Known{7, b}
		if !k.matches(b) {
			t.Fatal("it doesn't say what it says")
		}
		if out := dirOf(k, "").encode(k.written()); string(out) != string(b) {
			t.Fatalf("another value:\n%x\n%x", out, b)
		}
		for range k.Files() {
			break
		}
		for range k.Subs() {
			break
		}
	})
}

func TestMalformed(t *testing.T) {
	good := someDir().encode(Moment{})
	cut := func(n int) func(b []byte) []byte { return func(b []byte) []byte { return b[:n] } }
	set := func(at int, v byte) func(b []byte) []byte { return func(b []byte) []byte { b[at] = v; return b } }
	for name, change := range map[string]func(b []byte) []byte{
		"nothing":                 cut(0),
		"less than a head":        cut(valueHead - 1),
		"a head alone":            cut(valueHead),
		"cut in a file":           cut(valueHead + recordHead),
		"cut in a directory":      cut(len(good) - 1),
		"one file more":           set(valueFiles, 3),
		"one file less":           set(valueFiles, 1),
		"one directory more":      set(valueDirs, 3),
		"one directory less":      set(valueDirs, 1),
		"files beyond number":     set(valueFiles+3, 255),
		"a name that is too long": set(valueHead+recordName, 255),
		"no name":                 set(valueHead+recordName, 0),
		"names out of order":      set(valueHead+recordHead, 'b'),
		"directories, too":        set(len(good)-1, 'b'),
		"another byte":            func(b []byte) []byte { return append(b, 0) },
	} {
		if wellFormed(change(slices.Clone(good))) {
			t.Errorf("%s: accepted", name)
		}
	}
	if !wellFormed(good) {
		t.Error("the good one was changed")
	}
}

// TestStampMatters: of what a stamp has, nothing is lost on the way.
func TestStampMatters(t *testing.T) {
	was := Stamp{Dev: 9, Ino: 1, Size: 2, Mtime: 3, Ctime: 4, Mode: 5}
	k := &Known{9, (&Dir{Dev: 9, Files: []File{{Name: "a", Stamp: was}}}).encode(Moment{})}
	r := Record{}
	if !r.IsZero() {
		t.Error("there is something of nothing")
	}
	for r = range k.Files() {
	}
	if r.IsZero() || r.Stamp() != was {
		t.Error("not itself")
	}
	for i, change := range []func(s *Stamp){
		func(s *Stamp) {
			s.Ino++
		}, func(s *Stamp) {
			s.Size++
		}, func(s *Stamp) { s.Mtime++ }, func(s *Stamp) { s.Ctime++ }, func(s *Stamp) { s.Mode++ },
		func(s *Stamp) { s.Dev++ },
	} {
		is := was
		change(&is)
		if r.Stamp() == is {
			t.Errorf("change %d is not noticed", i)
		}
	}
}
