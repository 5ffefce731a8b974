package archive

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

func benchWorld(b *testing.B) *world {
	files := map[string]string{"large.txt": strings.Repeat("a line of text that comes again, as lines do\n", 200_000)}
	for i := range 2000 {
		files[fmt.Sprintf(".ai/knowledge/acme/%04d.md", i)] = strings.Repeat(fmt.Sprintf("line %d of the text\n", i*i),
			1+i%100)
	}
	return newWorld(b, files, nil)
}

func BenchmarkWrite(b *testing.B) {
	w := benchWorld(b)
	b.SetBytes(w.list.Bytes)
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(b.Context(), io.Discard, w.body, w.list.Signatures, &w.store); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	w := benchWorld(b)
	archive := w.write(b)
	b.SetBytes(w.list.Bytes)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(b.Context(), bytes.NewReader(archive), &log{lazy: true}); err != nil {
			b.Fatal(err)
		}
	}
}
