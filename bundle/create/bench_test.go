package create

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/sign"
)

var items10k = flag.Int("items", 1000, "how many items BenchmarkCreate makes a bundle of")

// many returns a bundle's directory of many items of 2 KiB.
func many(b *testing.B) *world {
	w := newWorld(b)
	w.recipe("id: acme/many\nversion: 1.0.0\n")
	filler := ""
	for len(filler) < 1500 {
		filler += "# The quick brown fox jumps over the lazy dog, and password rules are told elsewhere.\n"
	}
	for i := range *items10k {
		id := fmt.Sprintf("acme/many/g%d/t%d", i/100, i)
		text := toolText(id, subprocess, filler)
		signed, err := sign.Sign([]byte(text), admission.Subject{Name: "tool:" + id, Style: sign.Hash}.Signing(),
			sign.Claim{Domain: sign.Item, Name: "tool:" + id}, alice, created, nil)
		if err != nil {
			b.Fatal(err)
		}
		w.write(".ai/tools/"+id+".yaml", string(signed))
	}
	return w
}

func BenchmarkCreate(b *testing.B) {
	w := many(b)
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.o.Store = newDisk(b)
			if r := w.create(); r.Items != *items10k {
				b.Fatal(r.Items)
			}
		}
	})
	b.Run("checked", func(b *testing.B) {
		w.o.Store = newDisk(b)
		w.remember()
		w.create()
		w.o.Memory = nil
		w.o.Cache.Close(b.Context())
		b.ReportAllocs()
		for b.Loop() {
			w.create()
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		w.o.Store = newDisk(b)
		w.remember()
		w.create()
		w.o.Cache.Close(b.Context())
		b.ReportAllocs()
		for b.Loop() {
			if r := w.create(); !r.Remembered || r.Read != 0 {
				b.Fatalf("%+v", r)
			}
		}
	})
}

func newDisk(b *testing.B) *disk.Store {
	s, err := disk.Open(filepath.Join(b.TempDir(), "store"), disk.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}
