// Package goldentest compares what code writes with golden files, which tests rewrite with the flag -update.
package goldentest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Update reports whether golden files are rewritten: a test then takes what it gets as what it wants.
func Update() bool { return *update }

// File compares got with a golden file, and returns what that has.
func File(t testing.TB, path string, got []byte) (want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, want) {
		n := differ(got, want)
		t.Errorf("%s:%d: got\n%.2000s\nwant\n%.2000s\nThe flag -update rewrites it.", path, n+1, from(got, n),
			from(want, n))
	}
	return want
}

// differ returns how many lines two texts begin with alike.
func differ(a, b []byte) (n int) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if a[i] == '\n' {
			n++
		}
	}
	return n
}

// from returns a text without its first n lines.
func from(b []byte, n int) []byte {
	for range n {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b
}

// JSON compares a value, as indented JSON, with a golden file.
func JSON(t testing.TB, path string, v any) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	File(t, path, b.Bytes())
}
