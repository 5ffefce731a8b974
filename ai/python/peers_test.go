//go:build peers

package python_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/python"
	"github.com/rye-build/rye/ai/value"
)

const peer = "/usr/bin/python3"

// found is what testdata/literals.py says about a file.
type found struct {
	Path, Error, Coding, Doc string
	Names                    []any
}

// ask asks CPython about files.
func ask(t *testing.T, paths []string) []found {
	t.Helper()
	cmd := exec.Command(peer, "-I", "-B", "-X", "utf8", "testdata/literals.py")
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\n") + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	all := make([]found, len(paths))
	for i := range all {
		if err := dec.Decode(&all[i]); err != nil || all[i].Path != paths[i] {
			t.Fatalf("%s: %v, %s", paths[i], err, all[i].Path)
		}
	}
	return all
}

// plain returns a value in the form of testdata/literals.py.
func plain(v *value.Value) []any {
	out := []any{v.Kind.String()}
	switch v.Kind {
	case value.Null:
	case value.List:
		items := []any{}
		for _, item := range v.Items {
			items = append(items, plain(item))
		}
		return append(out, items)
	case value.Map:
		return append(out, pairs(v))
	default:
		return append(out, v.Text)
	}
	return out
}

func pairs(m *value.Value) []any {
	out := []any{}
	for _, e := range m.Map {
		out = append(out, []any{e.Key, plain(e.Value)})
	}
	return out
}

// compare holds both readers against CPython and returns how many files it accepts.
func compare(t *testing.T, paths []string) (accepted int) {
	t.Helper()
	for _, f := range ask(t, paths) {
		if f.Error != "" || f.Coding != "" {
			continue
		}
		accepted++
		src, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		show := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: "+format, append([]any{f.Path}, args...)...)
			if len(src) < 2000 {
				t.Logf("%q", src)
			}
		}
		m := python.Read(src)
		for _, p := range m.Problems {
			if !p.Warning {
				show("CPython accepts it: %v", p)
			}
		}
		if got := pairs(m.Names); !reflect.DeepEqual(got, f.Names) || m.Doc != f.Doc {
			show("\ngot  %.1500q %.300q\nwant %.1500q %.300q", got, m.Doc, f.Names, f.Doc)
		}
		want := map[string]any{}
		for _, pair := range f.Names {
			want[pair.([]any)[0].(string)] = pair.([]any)[1]
		}
		for _, e := range python.ByPattern(src).Names.Map {
			if !reflect.DeepEqual(any(plain(e.Value)), want[e.Key]) {
				show("by pattern %q is %q; want %q", e.Key, plain(e.Value), want[e.Key])
			}
		}
	}
	return accepted
}

// What we read is what CPython's ast reads: in files made at random, in the same files with a few bytes changed, and
// in the golden ones.
func TestPeerGenerated(t *testing.T) {
	dir := t.TempDir()
	var files, spoiled []string
	write := func(list *[]string, src string) {
		path := filepath.Join(dir, fmt.Sprintf("%05d.py", len(files)+len(spoiled)))
		if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		*list = append(*list, path)
	}
	for i := range 400 {
		g := &generator{rand.New(rand.NewPCG(11, uint64(i)))}
		src := g.file()
		write(&files, src)
		for range 5 {
			write(&spoiled, g.spoil(src))
		}
	}
	golden, err := filepath.Glob("testdata/*.py")
	if err != nil {
		t.Fatal(err)
	}
	n, m := compare(t, append(files, golden...)), compare(t, spoiled)
	t.Logf("CPython accepts %d of %d, spoiled %d of %d", n, len(files)+len(golden), m, len(spoiled))
	if n < 380 || m < 200 {
		t.Errorf("CPython accepts %d files, spoiled %d", n, m)
	}
}

// The same holds for Python's own library.
func TestPeerLibrary(t *testing.T) {
	out, err := exec.Command(peer, "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	err = filepath.WalkDir(strings.TrimSpace(string(out)), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".py") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n := compare(t, paths)
	t.Logf("CPython accepts %d of %d", n, len(paths))
	if n < 400 {
		t.Errorf("CPython accepts %d files of %d", n, len(paths))
	}
}
