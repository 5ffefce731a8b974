package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

func sum(s string) cas.Digest { return cas.Sum([]byte(s)) }

func prints(names ...string) []key.Fingerprint {
	var out []key.Fingerprint
	for _, n := range names {
		out = append(out, key.Fingerprint(sum(n)))
	}
	slices.SortFunc(out, key.Fingerprint.Compare)
	return out
}

func requirement(t testing.TB, id, versions string, s project.Source) project.Requirement {
	t.Helper()
	r, err := project.NewRequirement(id, versions, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sample has everything that a lock can say, in an order that it isn't written in.
func sample(t testing.TB) *Lock {
	index := project.Source{Index: true, Where: "https://bundles.acme.example/index.yaml"}
	return &Lock{
		Requires: []project.Requirement{
			requirement(t, "acme/notes", "*", project.Source{Where: "../notes"}),
			requirement(t, "acme/base", "^2.1", index),
		},
		Bundles: []Bundle{
			{ID: "acme/notes", Version: "0.3.0", Manifest: sum("notes"), Source: project.Source{Where: "../notes"}},
			{ID: "acme/base", Version: "2.1.4", Manifest: sum("base"), Source: index},
		},
		Pins: []Pin{
			{Ref: model.Ref{Kind: "tool", ID: "rye/bash/bash"}, Version: "1.0.0", Digest: sum("bash"), From: FromStd,
				Interface: sum("i"), Grants: sum("g")},
			{Ref: model.Ref{Kind: "tool", ID: "acme/shop/run"}, Version: "0.1.0", Digest: sum("run"),
				Tree: sum("tree"), From: FromProject,
				Path: "tools/acme/shop/run.py", Size: 812, Mode: cas.Exec, Files: sum("files"),
				Signers: prints("alice", "bob"), Format: sign.V2, Interface: sum("i"), Grants: sum("g")},
			{Ref: model.Ref{Kind: "tool", ID: "acme/base/fetch"}, Digest: sum("fetch"), From: System + "acme/base",
				Signers: prints("carol"), Format: sign.V1},
			{Ref: model.Ref{Kind: "tool-kit", ID: "a"}, Version: "1.0.0-rc.1+b", Digest: sum("kit"), From: FromUser,
				Path: "kits/a.yaml", Size: 1, Mode: cas.File},
			{Ref: model.Ref{Kind: "config", ID: "limits"}, Digest: sum("limits"), From: FromProject,
				Path: "config/limits.yaml", Size: 77, Mode: cas.File, Signers: prints("alice", "bob"),
				Format: sign.V2},
		},
		Toolchain: []Program{
			{"python", "linux/arm64", "3.13.1", sum("p1")}, {"node", "linux/amd64", "v22.1.0", sum("n")},
			{"python", "linux/amd64", "3.13.1", sum("p2")},
		},
		Artifacts: []Artifact{
			{"pypi:requests", "2.32.3:py3-none-any", sum("requests"), "sha256:" + strings.Repeat("7a", 32), 64928},
			{"npm:@acme/x", "1.0.0", sum("x"), "sha512:" + strings.Repeat("0f", 64), 0},
		},
		Definitions: []Definition{{"mcp:files/write", sum("write")}, {"mcp:files/read", sum("read")}},
	}
}

func encode(t testing.TB, l *Lock) []byte {
	t.Helper()
	b, err := Append(nil, l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join("testdata", name), got)
}

func TestGolden(t *testing.T) {
	for name, l := range map[string]*Lock{"full.lock": sample(t), "empty.lock": {}} {
		b := encode(t, l)
		golden(t, name, b)
		read, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if again := encode(t, read); !bytes.Equal(again, b) {
			t.Errorf("%s: written again it is\n%s", name, again)
		}
		if joined, err := Append([]byte("x"), read); err != nil || string(joined) != "x"+string(b) {
			t.Error(err)
		}
		if len(Diff(read, read)) != 0 {
			t.Errorf("%s differs from itself", name)
		}
	}
	l, err := Parse(encode(t, sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	// What was read is what was written, in order.
	want := sample(t)
	slices.Reverse(want.Requires)
	slices.Reverse(want.Bundles)
	slices.Reverse(want.Artifacts)
	slices.Reverse(want.Definitions)
	want.Pins = []Pin{want.Pins[4], want.Pins[3], want.Pins[2], want.Pins[1], want.Pins[0]}
	want.Toolchain = []Program{want.Toolchain[1], want.Toolchain[2], want.Toolchain[0]}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("got\n%+v\nwant\n%+v", l, want)
	}
}

func TestLookups(t *testing.T) {
	l, err := Parse(encode(t, sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Pins {
		if l.Pin(l.Pins[i].Ref) != &l.Pins[i] {
			t.Errorf("%s isn't found", l.Pins[i].Ref)
		}
	}
	for i := range l.Bundles {
		if l.Bundle(l.Bundles[i].ID) != &l.Bundles[i] {
			t.Errorf("%s isn't found", l.Bundles[i].ID)
		}
	}
	if l.Pin(model.Ref{Kind: "tool", ID: "a"}) != nil || l.Bundle("acme") != nil {
		t.Error("found what isn't there")
	}
}

type badCase struct{ Name, Old, New, Want string }

// Each case changes the full vector in one place.
func badCases(t testing.TB) (cases []badCase) {
	t.Helper()
	b, err := os.ReadFile("testdata/bad.json")
	if err == nil {
		err = json.Unmarshal(b, &cases)
	}
	if err != nil || len(cases) < 50 {
		t.Fatal(len(cases), err)
	}
	return cases
}

func (c badCase) text(t testing.TB, full string) string {
	t.Helper()
	if c.Old == "" {
		return c.New
	}
	// Words for what would be long.
	signers := prints("alice", "bob")
	list := func(a, b int) string { return fmt.Sprintf("[%q, %q]", signers[a], signers[b]) }
	words := strings.NewReplacer("DIGEST:fetch", sum("fetch").String(), "DIGEST:tree", sum("tree").String(), "ZERO",
		cas.Digest{}.String(),
		"UPPER", "blake3:"+strings.ToUpper(sum("fetch").String()[7:]), "SIGNERS", list(0, 1), "REVERSED", list(1, 0),
		"TWICE", list(0, 0))
	c.Old, c.New = words.Replace(c.Old), words.Replace(c.New)
	if !strings.Contains(full, c.Old) {
		t.Fatalf("%s: the vector has no %q", c.Name, c.Old)
	}
	return strings.Replace(full, c.Old, c.New, 1)
}

func TestBad(t *testing.T) {
	full := string(encode(t, sample(t)))
	cases := badCases(t)
	for i, c := range cases {
		l, err := Parse([]byte(c.text(t, full)))
		switch {
		case err == nil || l != nil:
			t.Errorf("%s is accepted", c.Name)
		case goldentest.Update():
			cases[i].Want = err.Error()
		case err.Error() != c.Want:
			t.Errorf("%s:\n got %s\nwant %s", c.Name, err, c.Want)
		}
	}
	goldentest.JSON(t, "testdata/bad.json", cases)
}

// A file that was cut off anywhere is no lock.
func TestTruncated(t *testing.T) {
	b := encode(t, sample(t))
	for n := range b {
		if l, err := Parse(b[:n]); err == nil || l != nil {
			t.Fatalf("the first %d bytes are a lock", n)
		}
	}
	if _, err := Parse(b[:bytes.Index(b, []byte("end:\n"))]); err == nil ||
		err.Error() != "lock: the file is truncated: its end is missing" {
		t.Error(err)
	}
}

// A changed byte makes a file that is refused, or one that Diff reports.
func TestFlips(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	b := encode(t, sample(t))
	before, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	refused, other := 0, 0
	check := func(mutant []byte) {
		l, err := Parse(mutant)
		if err != nil {
			refused++
			return
		}
		other++
		if again := encode(t, l); !bytes.Equal(again, mutant) {
			t.Fatalf("%q is accepted and written as %q", mutant, again)
		}
		if reflect.DeepEqual(l, before) || len(Diff(before, l)) == 0 || len(Diff(l, before)) == 0 {
			t.Fatalf("%q says the same", mutant)
		}
	}
	mutant := bytes.Clone(b)
	for i := range b {
		for _, c := range []byte{b[i] ^ 1, b[i] ^ 32, '0'} {
			if c != b[i] {
				mutant[i] = c
				check(mutant)
				mutant[i] = b[i]
			}
		}
		check(slices.Delete(bytes.Clone(b), i, i+1))
	}
	for line := range bytes.Lines(b) {
		at := bytes.Index(b, line)
		check(slices.Delete(bytes.Clone(b), at, at+len(line)))
		check(slices.Insert(bytes.Clone(b), at, line...))
	}
	if refused < 1000 || other < 1000 {
		t.Fatal(refused, other)
	}
}

func TestErrors(t *testing.T) {
	full := string(encode(t, sample(t)))
	var version *canon.VersionError
	if _, err := Parse([]byte(strings.Replace(full, "lock/2", "lock/3", 1))); !errors.As(err, &version) ||
		version.Found != "lock/3" {
		t.Error(err)
	}
	var syntax *canon.SyntaxError
	if _, err := Parse([]byte(strings.Replace(full, "pins:", "pins: ", 1))); !errors.As(err, &syntax) ||
		syntax.Line != 8 {
		t.Error(err)
	}
	var own *Error
	if _, err := Parse([]byte(strings.ReplaceAll(full, "\n", "\r\n"))); !errors.As(err, &own) || own.Line != 1 {
		t.Error(err)
	}
	if _, err := Parse([]byte(strings.Replace(full, "../notes", "/notes", 1))); !errors.As(err, &own) ||
		own.Line != 4 {
		t.Error(err)
	}
	if _, err := Parse([]byte(strings.Replace(full, "../notes", "/notes",
		1))); fault.CodeOf(err) != fault.LockMismatch {
		t.Error(err)
	}
}

func TestAppendRefuses(t *testing.T) {
	for want, change := range map[string]func(l *Lock){
		"is written":                func(l *Lock) { l.Bundles[0].Source.Where = "./x" },
		"from":                      func(l *Lock) { l.Bundles[0].Source.Where = "" },
		"is not a version":          func(l *Lock) { l.Bundles[0].Version = "" },
		"the digest is zero":        func(l *Lock) { l.Pins[0].Digest = cas.Digest{} },
		"items of the library have": func(l *Lock) { l.Pins[0].Signers, l.Pins[0].Format = prints("x"), sign.V2 },
		"signers have a format":     func(l *Lock) { l.Pins[1].Format = sign.None },
		"sorted and unique":         func(l *Lock) { l.Pins[1].Signers = prints("x", "x") },
		"must come before":          func(l *Lock) { l.Pins = append(l.Pins, l.Pins[0]) },
		"names no item":             func(l *Lock) { l.Pins[0].Ref.Kind = "bundle" },
		"unknown space \"\"":        func(l *Lock) { l.Pins[0].From = "" },
		`the version "1@2" of "npm"`: func(l *Lock) {
			l.Artifacts[0] = Artifact{"npm", "1@2", sum("a"), l.Artifacts[0].Source, 1}
		},
		"invalid program":          func(l *Lock) { l.Toolchain[0].Name = "python 3" },
		"cannot be required":       func(l *Lock) { l.Requires[0].ID = "rye/std" },
		"isn't locked as a bundle": func(l *Lock) { l.Bundles[0].ID = "rye/std" },
	} {
		l := sample(t)
		change(l)
		if b, err := Append([]byte("x"), l); err == nil || string(b) != "x" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

const merged = `rye: "lock/2"
definitions:
<<<<<<< HEAD
  "a": {digest: "A"}
||||||| 1234567
  "base": {digest: "B"}
=======
  "b": {digest: "C"}
>>>>>>> feature
  "c": {digest: "D"}
<<<<<<< HEAD
=======
  "d": {digest: "E"}
>>>>>>> feature
end:
  "rye.lock": {}
`

func TestMerge(t *testing.T) {
	fill := func(s string) string {
		for _, name := range []string{"A", "B", "C", "D", "E"} {
			s = strings.ReplaceAll(s, `"`+name+`"`, `"`+sum(name).String()+`"`)
		}
		return s
	}
	text := fill(merged)
	for _, text := range []string{text, strings.ReplaceAll(text, "\n", "\r\n"), text[strings.Index(text, "<<<"):]} {
		_, err := Parse([]byte(text))
		var e *MergeError
		if !errors.As(err, &e) || e.Line != 1 && e.Line != 3 ||
			!strings.Contains(err.Error(), "unresolved merge conflict") {
			t.Errorf("%q: %v", text, err)
		}
	}
	ours, theirs, ok := Sides([]byte(text))
	want := [2]string{
		fill(
			"rye: \"lock/2\"\ndefinitions:\n  \"a\": {digest: \"A\"}\n  \"c\": {digest: \"D\"}\nend:\n  \"rye.lock\": {}\n"),
		fill(
			"rye: \"lock/2\"\ndefinitions:\n  \"b\": {digest: \"C\"}\n  \"c\": {digest: \"D\"}\n  \"d\": {digest: \"E\"}\nend:\n  \"rye.lock\": {}\n")}
	if !ok || string(ours) != want[0] || string(theirs) != want[1] {
		t.Errorf("%s\n%s", ours, theirs)
	}
	for _, side := range [][]byte{ours, theirs} {
		if _, err := Parse(side); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{
		"", "x\n", "<<<<<<< a\n", "=======\n", "<<<<<<< a\n=======\n", ">>>>>>> a\n",
		"<<<<<<< a\n<<<<<<< a\n=======\n>>>>>>> b\n",
		"<<<<<<< a\n>>>>>>> b\n", "<<<<<<< a\n=======\n=======\n>>>>>>> b\n",
		"<<<<<<< a\n|||||||\n|||||||\n=======\n>>>>>>> b\n", "<<<<<<< a\n=======\n|||||||\n>>>>>>> b\n",
	} {
		if ours, theirs, ok := Sides([]byte(text)); ok || ours != nil || theirs != nil {
			t.Errorf("%q has sides", text)
		}
	}
}

// Two branches that change different pins merge line by line.
func TestOneLineEach(t *testing.T) {
	b := encode(t, sample(t))
	if got, want := bytes.Count(b, []byte("\n")), 1+7+2+2+5+3+2+2+1; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
}

func FuzzParse(f *testing.F) {
	full := encode(f, sample(f))
	f.Add(full)
	f.Add(encode(f, &Lock{}))
	f.Add([]byte(merged))
	for _, c := range badCases(f) {
		f.Add([]byte(c.text(f, string(full))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs, ok := Sides(b)
		if ok && len(ours)+len(theirs) > 2*len(b) {
			t.Fatal("the sides are more than the whole")
		}
		l, err := Parse(b)
		if (l == nil) == (err == nil) {
			t.Fatal(l, err)
		}
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		if again := encode(t, l); !bytes.Equal(again, b) {
			t.Fatalf("%q is accepted and written as %q", b, again)
		}
		if ok {
			t.Fatal("a lock that is an unfinished merge")
		}
		if len(Diff(l, l)) > 0 {
			t.Fatal("it differs from itself")
		}
		empty, changed := &Lock{}, Diff(&Lock{}, l)
		if len(changed) != len(l.Requires)+len(l.Bundles)+len(l.Pins)+len(l.Toolchain)+len(l.Artifacts)+
			len(l.Definitions) ||
			len(Diff(l, empty)) != len(changed) || len(Weakening(changed)) > 0 {
			t.Fatal(changed)
		}
	})
}

// large is a lock with n pins.
func large(t testing.TB, n int) *Lock {
	l := &Lock{}
	for i := range n {
		s := fmt.Sprint(i)
		l.Pins = append(l.Pins, Pin{
			Ref: model.Ref{Kind: "tool", ID: fmt.Sprintf("acme/part%02d/tool%06d", i%50, i)}, Version: "1.2.3",
			Digest: sum(s), From: System + fmt.Sprint("acme/b", i%50),
			Signers: prints("alice", "bob"), Format: sign.V2, Interface: sum("i" + s), Grants: sum("g"),
		})
	}
	return l
}

func TestMemory(t *testing.T) {
	const n = 2000
	b := encode(t, large(t, n))
	allocs := testing.AllocsPerRun(5, func() {
		if _, err := Parse(b); err != nil {
			t.Fatal(err)
		}
	})
	// Names are many to one allocation, and signers those of the entry before.
	if allocs > n/2 {
		t.Errorf("%.0f allocations for %d pins", allocs, n)
	}
}

func BenchmarkParse(b *testing.B) {
	doc := encode(b, large(b, 100_000))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if l, err := Parse(doc); err != nil || len(l.Pins) != 100_000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	l := large(b, 100_000)
	doc := encode(b, l)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Append(doc[:0], l); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	l, err := Parse(encode(b, large(b, 100_000)))
	if err != nil {
		b.Fatal(err)
	}
	m := *l
	m.Pins = slices.Clone(l.Pins)
	for i := range 100 {
		m.Pins[i*1000].Digest = sum("x")
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(Diff(l, &m)) != 100 {
			b.Fatal("?")
		}
	}
}

func TestArtifactsOf(t *testing.T) {
	var l Lock
	for _, name := range []string{"npm:a@1.0.0", "npm:a@1.0.0-rc.1", "pypi:a@1.0.0:cp312-abi3-linux_x86_64",
		"pypi:a@1.0.0:py3-none-any", "pypi:a@1.0.01:py3-none-any", "pypi:ab@1.0.0:py3-none-any"} {
		of, version, _ := strings.Cut(name, "@")
		l.Artifacts = append(l.Artifacts, Artifact{of, version, sum(name), "sha256:" + strings.Repeat("0f", 32), 1})
	}
	read, err := Parse(encode(t, &l))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, version, want string }{
		{"npm:a", "1.0.0", "npm:a@1.0.0"}, {"npm:a", "1.0", ""}, {"npm:b", "1.0.0", ""},
		{"pypi:ab", "1.0.0", "pypi:ab@1.0.0:py3-none-any"},
		{"pypi:a", "1.0.0", "pypi:a@1.0.0:cp312-abi3-linux_x86_64 pypi:a@1.0.0:py3-none-any"},
	} {
		var got []string
		for _, a := range read.ArtifactsOf(test.name, test.version) {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s@%s: got %q", test.name, test.version, got)
		}
	}
	if version, tags := read.Artifacts[3].Tags(); version != "1.0.0" || tags != "cp312-abi3-linux_x86_64" {
		t.Errorf("got %q, %q", version, tags)
	}
}

// TestCanonical: a lock in any order is what its file says, and so is what keeps it from being one.
func TestCanonical(t *testing.T) {
	pins := make([]Pin, 3000)
	for i := range pins {
		id := fmt.Sprint("a/", 9999-i)
		pins[i] = Pin{Ref: model.Ref{Kind: "tool", ID: id}, Digest: cas.Sum([]byte(id)), From: FromProject,
			Path: "tools/" + id + ".py", Size: 1, Mode: cas.File}
	}
	l := &Lock{Pins: pins}
	want, err := Append(nil, l)
	if err != nil {
		t.Fatal(err)
	}
	got, id, err := Canonical(l)
	if err != nil || id != cas.Sum(want) {
		t.Fatal(id, err)
	}
	if parsed, err := Parse(want); err != nil || !reflect.DeepEqual(got, parsed) {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := Write(&b, got); err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Error(err)
	}
	for what, bad := range map[string]func(*Lock){
		"twice":           func(l *Lock) { l.Pins = append(l.Pins, l.Pins[5]) },
		"no place":        func(l *Lock) { l.Pins[5].Path = "" },
		"the last of all": func(l *Lock) { l.Definitions = []Definition{{Name: "a b", Digest: cas.Sum(nil)}} },
		"an @ too many":   func(l *Lock) { l.Artifacts = []Artifact{{Name: "a", Version: "@"}} },
	} {
		l := &Lock{Pins: slices.Clone(pins)}
		bad(l)
		_, want := Append(nil, l)
		if _, id, err := Canonical(l); err == nil || want == nil || err.Error() != want.Error() || !id.IsZero() {
			t.Errorf("%s: %v, and not %v", what, err, want)
		}
	}
}

// TestFromRegistry: a bundle from a registry says where its log has it, and no other does.
func TestFromRegistry(t *testing.T) {
	from := project.RegistryAt("https://registry.example")
	l := &Lock{Requires: []project.Requirement{requirement(t, "acme/log", "^3", from)},
		Bundles: []Bundle{{ID: "acme/log", Version: "3.0.1", Manifest: sum("log"), Source: from,
			Log: "registry.example/log", Leaf: 17}}}
	b := encode(t, l)
	const line = `from: "registry:https://registry.example", log: "registry.example/log", leaf: 17}`
	if !strings.Contains(string(b), line) {
		t.Fatalf("%s", b)
	}
	read, err := Parse(b)
	if err != nil || read.Bundles[0] != l.Bundles[0] {
		t.Errorf("%+v, %v", read, err)
	}
	for old, bad := range map[string]string{
		`, leaf: 17`: "", `, log: "registry.example/log"`: "",
		line: `from: "../log", log: "registry.example/log", leaf: 17}`,
		`"registry:https://registry.example", log`: `"registry:https://registry.example/", log`,
	} {
		if _, err := Parse([]byte(strings.Replace(string(b), old, bad, 1))); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
