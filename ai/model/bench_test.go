package model

import (
	"os"
	"path/filepath"
	"testing"
)

func BenchmarkRead(b *testing.B) {
	for _, path := range []string{"directives/web/everything.md", "tools/acme/fetch.py", "tools/acme/runtime.yaml",
		"tools/acme/fetch_node.js", "knowledge/acme/style.md"} {
		b.Run(filepath.Base(path), func(b *testing.B) {
			text, err := os.ReadFile(filepath.Join("testdata", "items", path))
			if err != nil {
				b.Fatal(err)
			}
			k := kindOf(b, path)
			ref, err := k.RefOf(path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				k.Read(ref, path, text)
			}
		})
	}
}

func BenchmarkMarked(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("testdata", "items", "tools", "acme", "fetch.py"))
	if err != nil {
		b.Fatal(err)
	}
	k := builtinKind(b, "tool")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		k.Marked("tools/acme/fetch.py", text)
	}
}
