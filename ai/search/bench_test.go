package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// big is a library of 10,000 items of 300 words each. Its Files costs nothing, so that what is left is the index.
type big struct {
	*library
	files []File
}

func (b *big) Files(context.Context) ([]File, error) { return b.files, nil }

func newBig(b *testing.B) *big {
	l := newLibrary()
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 10_000 {
		text := sentence(r, 300)
		l.put("project", fmt.Sprintf("acme/area-%d/item-%d", i%100, i), fmt.Sprintf("name=item-%d", i),
			"description="+text[:60], fmt.Sprintf("category=area-%d", i%100), "content="+text)
	}
	files, err := l.Files(b.Context())
	must(b, err)
	files, err = sortFiles(files)
	must(b, err)
	return &big{l, files}
}

func BenchmarkSearch10000(b *testing.B) {
	l := newBig(b)
	path := filepath.Join(b.TempDir(), "search.db")
	b.Run("cold", func(b *testing.B) {
		for i := range b.N {
			find(b, Open(fmt.Sprint(path, i)), l, "")
		}
	})
	st := find(b, Open(path), l, "").Stats
	b.Logf("%d bytes for %d records", st.Bytes, st.Records)
	for _, q := range []string{"", "w100", "w1 w20 w300", "w1 OR w2 OR w3", `"w1 w2"`, "w12*", "*2*", "w123~2",
		"content:w5 -w6"} {
		b.Run("warm/"+q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := Open(path).Search(b.Context(), l, Request{Query: parse(b, q)})
				must(b, err)
				if r.Stats.Read != 0 || r.Stats.Note != "" {
					b.Fatalf("%+v", r.Stats)
				}
			}
		})
	}
	b.Run("changed", func(b *testing.B) {
		for i := range b.N {
			f := l.put("project", "acme/area-0/item-0", fmt.Sprint("name=changed", i))
			for j := range l.files {
				if l.files[j].Path == f.Path {
					l.files[j] = f.File
				}
			}
			r, err := Open(path).Search(b.Context(), l, Request{Query: parse(b, "w1")})
			must(b, err)
			if r.Stats.Read != 1 {
				b.Fatalf("%+v", r.Stats)
			}
		}
	})
}
