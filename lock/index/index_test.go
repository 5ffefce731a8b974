package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var alice, bob = keytest.Alice(), keytest.Bob()

func require(t testing.TB, id, versions string) Require {
	t.Helper()
	r, err := NewRequire(id, versions)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sum(s string) cas.Digest { return cas.Sum([]byte(s)) }

// sample has everything that an index can say, in an order that it isn't written in.
func sample(t testing.TB) *Index {
	return &Index{Label: "acme/bundles", Counter: 7, Expires: noon.AddDate(1, 0, 0), Entries: []Entry{
		{ID: "acme/web", Version: "1.0.0", Manifest: sum("web"),
			Archive: "https://files.acme.example/web-1.0.0.tar.zst", Size: 40960,
			Requires: []Require{require(t, "acme/log", "*"), require(t, "acme/base", "^2.1 || ~3.0.1")}},
		{ID: "acme/base", Version: "2.1.4", Manifest: sum("base 2.1.4"), Archive: "acme-base-2.1.4.tar.zst",
			Size: 81234},
		{ID: "acme/base", Version: "2.1.10", Manifest: sum("base 2.1.10"), Archive: "old/ü ber.rye", Size: MaxArchive},
		{ID: "acme/base", Version: "2.1.4+linux", Manifest: sum("base linux"), Archive: "a", Size: 1},
		{ID: "acme/base-x", Version: "1.0.0", Manifest: sum("x"), Archive: "x", Size: 1},
		{ID: "acme/base/x", Version: "1.0.0", Manifest: sum("y"), Archive: "y", Size: 1},
		{ID: "acme/basex", Version: "1.0.0-rc.1", Manifest: sum("z"), Archive: "z", Size: 1},
	}}
}

// registered is the index of one bundle in a registry.
func registered() *Index {
	return &Index{Label: "registry.example/acme/base", Counter: 18, Entries: []Entry{
		{ID: "acme/base", Version: "2.1.4", Manifest: sum("base 2.1.4"), Archive: "archives/9e1c", Size: 81234,
			Logged: &Logged{Digest: sum("archive 2.1.4"), By: "ada", Time: noon}},
		{ID: "acme/base", Version: "2.1.5", Manifest: sum("base 2.1.5"), Archive: "archives/0a77", Size: 81300,
			Logged: &Logged{Digest: sum("archive 2.1.5"), By: "github:acme/base", Time: noon.Add(time.Hour), Leaf: 12,
				Yanked: 17}},
	}}
}

func encode(t testing.TB, x *Index, keys ...key.Private) []byte {
	t.Helper()
	body, read, err := Append(nil, x)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := read.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	return manifest.Join(nil, body, read.Signatures)
}

func parse(t testing.TB, b []byte) *Index {
	t.Helper()
	x, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join("testdata", name), got)
}

func TestGolden(t *testing.T) {
	for name, x := range map[string]*Index{"full.yaml": sample(t), "registry.yaml": registered(),
		"empty.yaml": {Label: "a", Counter: 1}} {
		b := encode(t, x, bob, alice)
		golden(t, name, b)
		read := parse(t, bytes.Clone(b))
		if again := encode(t, read, alice, bob); !bytes.Equal(again, b) {
			t.Errorf("%s: written again it is\n%s", name, again)
		}
		if read.Name != "index:"+x.Label || read.Label != x.Label || read.Counter != x.Counter ||
			!read.Expires.Equal(x.Expires) || len(read.Entries) != len(x.Entries) {
			t.Errorf("%s reads as %+v", name, read)
		}
		signers, err := read.Check(func(f key.Fingerprint) (key.Public, bool) {
			return alice.Public(), f == alice.Public().Fingerprint()
		})
		if err != nil || len(signers) != 1 || read.Domain != sign.Index || len(read.Signatures) != 2 {
			t.Errorf("%s: signed by %v, %v", name, signers, err)
		}
		body, _, err := Append([]byte("x"), read)
		if err != nil || cas.Sum(body[1:]) != read.ID || body[0] != 'x' {
			t.Errorf("%s: appended it is\n%s\n%v", name, body, err)
		}
	}
}

func TestFind(t *testing.T) {
	x := parse(t, encode(t, sample(t)))
	for id, want := range map[string]string{
		"acme/base": "2.1.10 2.1.4 2.1.4+linux", "acme/base-x": "1.0.0", "acme/base/x": "1.0.0",
		"acme/basex": "1.0.0-rc.1", "acme/web": "1.0.0",
		"acme/bas": "", "acme/base/": "", "acme": "", "": "", "zz": "",
	} {
		var got []string
		for _, e := range x.Versions(id) {
			got = append(got, e.Version)
			if f := x.Find(id, e.Version); f == nil || f.ID != id || f.Version != e.Version {
				t.Errorf("%s@%s: found %v", id, e.Version, f)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	for _, miss := range [][2]string{{"acme/base", ""}, {"acme/base", "2.1"}, {"acme/base", "9"},
		{"acme/none", "1.0.0"}} {
		if e := x.Find(miss[0], miss[1]); e != nil {
			t.Errorf("%q: %v", miss, e)
		}
	}
	if got := x.Find("acme/web", "1.0.0").Requires; len(got) != 2 || got[0].ID != "acme/base" ||
		got[0].Text != "^2.1 || ~3.0.1" || !got[0].Range.Contains("2.4.0") || got[0].Range.Contains("3.1.0") {
		t.Errorf("it requires %v", got)
	}
	if full := x.Versions("acme/base"); cap(full) != len(full) {
		t.Error("appending to what Versions returned would change the index")
	}
}

func TestAt(t *testing.T) {
	for _, c := range []struct{ archive, address, want string }{
		{"a.rye", "https://h.example/x/index.yaml", "https://h.example/x/a.rye"},
		{"a.rye", "https://h.example", "https://h.example/a.rye"},
		{"old/ü b%2f#.rye", "https://h.example:8443/x/index.yaml?token=1",
			"https://h.example:8443/x/old/%C3%BC%20b%252f%23.rye"},
		{"a.rye", "https://h.example/x%2Fy/index.yaml", "https://h.example/x%2Fy/a.rye"},
		{"a.rye", "https://h.example/x/", "https://h.example/x/a.rye"},
		{"https://other.example/a.rye?v=1", "https://h.example/x/", "https://other.example/a.rye?v=1"},
	} {
		if got, err := (&Entry{Archive: c.archive}).At(c.address); got != c.want || err != nil {
			t.Errorf("%q at %q: %q, %v; want %q", c.archive, c.address, got, err, c.want)
		}
	}
	if _, err := (&Entry{Archive: "a"}).At("https://%zz"); err == nil {
		t.Error("an address that is none has a place for archives")
	}
}

// What is refused, each made from the sample by one change.
func TestBad(t *testing.T) {
	const path = "testdata/bad.json"
	good := string(encode(t, sample(t)))
	type change struct{ Old, New, Error string }
	var cases []change
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if strings.Count(good, c.Old) == 0 {
			t.Fatalf("%q doesn't stand in the sample", c.Old)
		}
		bad := strings.Replace(good, c.Old, c.New, 1)
		x, err := Parse([]byte(bad))
		if err == nil {
			t.Errorf("%q for %q is read as %+v", c.New, c.Old, x)
			continue
		}
		if goldentest.Update() {
			cases[i].Error = err.Error()
		} else if err.Error() != c.Error {
			t.Errorf("%q for %q: %v, want %s", c.New, c.Old, err, c.Error)
		}
	}
	goldentest.JSON(t, path, cases)
}

// A registry's entry says all that the log says of it, in its one form.
func TestLoggedRefused(t *testing.T) {
	good := string(encode(t, registered()))
	for _, c := range []struct{ old, new, says string }{
		{`, by: "ada"`, "", "together"},
		{`, leaf: 0`, "", "together"},
		{`, time: "2026-11-20T12:00:00Z"`, "", "together"},
		{`, digest: "` + sum("archive 2.1.5").String() + `", by: "github:acme/base", time: "2026-11-20T13:00:00Z", ` +
			`leaf: 12`, "", "together"},
		{`digest: "blake3:`, `digest: "sha256:`, "digest"},
		{"12:00:00Z", "12:00:00z", "time"},
		{"yanked: 17", "yanked: 12", "before it is published"},
		{"registry.example/acme/base", "registry.example//acme", "segment"},
		{"registry.example/acme/base", strings.Repeat("r", 190) + "/acme/" + strings.Repeat("b", 201), "200"},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if changed == good {
			t.Fatalf("no %q", c.old)
		}
		if _, err := Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.new, err)
		}
	}
	long := registered()
	long.Label = "registry.example/" + strings.Repeat("b", portable.MaxID)
	if _, _, err := Append(nil, long); err != nil {
		t.Errorf("the longest id: %v", err)
	}
	long.Label = "registry.example/private/acme/" + strings.Repeat("b", portable.MaxID)
	if _, _, err := Append(nil, long); err != nil {
		t.Errorf("the longest id of a private namespace: %v", err)
	}
}

// A signed index that was changed, cut off, or carries lines that are none is refused before anybody asks who signed
// it.
func TestSignatures(t *testing.T) {
	good := encode(t, sample(t), alice)
	for at := range bytes.SplitAfterSeq(good, []byte("\n")) {
		cut, _, _ := bytes.Cut(good, at)
		if x, err := Parse(cut); err == nil && len(x.Signatures) > 0 {
			t.Errorf("cut before %q it is read", at)
		}
	}
	var integrity *sign.IntegrityError
	if _, err := Parse(bytes.Replace(good, []byte("counter: 7"), []byte("counter: 8"), 1)); !errors.As(err,
		&integrity) || integrity.What != "content" {
		t.Errorf("changed: %v", err)
	}
	if _, err := Parse(append([]byte("# rye:signed:v2:x\n"), good...)); !errors.As(err, &integrity) ||
		integrity.What != "lines" {
		t.Errorf("a broken line: %v", err)
	}
	var version *canon.VersionError
	if _, err := Parse([]byte("rye: \"index/3\"\nwhat: 1\n")); !errors.As(err, &version) {
		t.Errorf("a later format: %v", err)
	}
}

func TestAppendRefuses(t *testing.T) {
	one := func(change func(*Index)) *Index {
		x := sample(t)
		change(x)
		return x
	}
	for want, x := range map[string]*Index{
		"index: the counter must be at least 1": one(func(x *Index) { x.Counter = 0 }),
		"index: line 8: path":                   one(func(x *Index) { x.Entries[2].Archive = "../x" }),
		"index: line 8: no archive has 0 bytes": one(func(x *Index) { x.Entries[2].Size = 0 }),
		"twice":                                 one(func(x *Index) { x.Entries[0] = x.Entries[1] }),
		"expires": one(func(x *Index) {
			x.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		}),
	} {
		dst, read, err := Append([]byte("kept"), x)
		if err == nil || string(dst) != "kept" || read != nil {
			t.Errorf("%s: written as %s", want, dst)
		} else if !strings.Contains(err.Error(), want) && want != "twice" {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What is read takes memory by what it says: of many entries, and of lines that only promise much.
func TestLarge(t *testing.T) {
	x := &Index{Label: "a", Counter: 1}
	r := require(t, "acme/base", "^1.2")
	for i := range 20_000 {
		id := fmt.Sprintf("acme/b%05d", i/10)
		version := fmt.Sprintf("1.%d.0", i%10)
		x.Entries = append(x.Entries, Entry{ID: id, Version: version, Manifest: sum(id + version),
			Archive: id + version + ".tar.zst", Size: 1000, Requires: []Require{r}})
	}
	b := encode(t, x)
	read := parse(t, b)
	if len(read.Entries) != len(x.Entries) || len(read.Versions("acme/b01999")) != 10 {
		t.Fatal("not all was read")
	}
	if n := testing.AllocsPerRun(1, func() { parse(t, b) }); n > 1.2*float64(len(x.Entries)) {
		t.Errorf("%.0f allocations for %d entries", n, len(x.Entries))
	}
	if _, err := Parse(bytes.Repeat([]byte(`rye: "index/2"`+"\n"), MaxBytes/14)); err == nil {
		t.Error("more than an index may have is read")
	}
}

func BenchmarkParse(b *testing.B) {
	x := &Index{Label: "a", Counter: 1}
	r := require(b, "acme/base", "^1.2")
	for i := range 100_000 {
		id := fmt.Sprintf("acme/b%05d", i/10)
		version := fmt.Sprintf("1.%d.0", i%10)
		x.Entries = append(x.Entries, Entry{ID: id, Version: version, Manifest: sum(id + version),
			Archive: id + version + ".tar.zst", Size: 1000, Requires: []Require{r}})
	}
	text := encode(b, x, alice)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		parse(b, text)
	}
}

// What is accepted has one form, finds each of its entries, and leads nowhere above it.
func FuzzParse(f *testing.F) {
	f.Add(encode(f, sample(f)))
	f.Add(encode(f, sample(f), alice, bob))
	f.Add(encode(f, &Index{Label: "a", Counter: 1}))
	f.Add(encode(f, registered()))
	raw, err := os.ReadFile("testdata/bad.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []struct{ Old, New string }
	if err := json.Unmarshal(raw, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add([]byte(strings.Replace(string(encode(f, sample(f))), c.Old, c.New, 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := Parse(b)
		if err != nil {
			return
		}
		body, again, err := Append(nil, x)
		if err != nil || !bytes.Equal(manifest.Join(nil, body, x.Signatures), b) || again.ID != x.ID ||
			!reflect.DeepEqual(again.Entries, x.Entries) {
			t.Fatalf("written again it is\n%s\n%v", body, err)
		}
		seen := map[string]bool{}
		for i := range x.Entries {
			e := &x.Entries[i]
			seen[e.ID] = true
			if x.Find(e.ID, e.Version) != e {
				t.Fatalf("%s@%s isn't found", e.ID, e.Version)
			}
			if at, err := e.At("https://h.example/below/index.yaml"); err != nil || !e.Remote() &&
				!strings.HasPrefix(at, "https://h.example/below/") || strings.Contains(at, "/../") {
				t.Fatalf("%q is at %q, %v", e.Archive, at, err)
			}
		}
		n := 0
		for _, id := range slices.Collect(maps.Keys(seen)) {
			n += len(x.Versions(id))
		}
		if n != len(x.Entries) {
			t.Fatalf("%d of %d entries are found", n, len(x.Entries))
		}
	})
}
