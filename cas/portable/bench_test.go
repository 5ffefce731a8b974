package portable

import (
	"fmt"
	"slices"
	"testing"
)

func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct{ name, path string }{
		{"ascii", ".ai/tools/rye/bash/bash.py"},
		{"ascii-upper", "docs/Design-Notes/README.md"},
		{"ascii-near-device", "console/compare/lptx/auxiliary/null.c"},
		{"latin", "docs/über/grüße.md"},
		{"cjk", "文書/設計/読み方.md"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.path)))
			for b.Loop() {
				if err := Check(c.path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	for _, name := range []string{"bash.py", "README.md", "Größe.md"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Fold(name)
			}
		})
	}
}

func BenchmarkDroppings(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Droppings("node_module.js")
	}
}

// BenchmarkCheckSet checks 100,000 paths in 1,000 directories, each with a README.
func BenchmarkCheckSet(b *testing.B) {
	var paths []string
	for d := range 1000 {
		paths = append(paths, fmt.Sprintf("src/pkg%03d/README.md", d))
		for f := range 99 {
			paths = append(paths, fmt.Sprintf("src/pkg%03d/file%02d.go", d, f))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckSet(slices.Values(paths)); err != nil {
			b.Fatal(err)
		}
	}
}
