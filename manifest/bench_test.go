package manifest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
)

const benchFiles = 100_000

// benchList is a list of 100,000 files in 1,000 directories; one in ten is an item.
func benchList(b *testing.B) (*FileList, []File, []byte) {
	files := make([]File, benchFiles)
	for i := range files {
		files[i] = File{
			Path:   fmt.Sprintf(".ai/tools/acme/package-%03d/module_%05d.py", i/100, i),
			Digest: cas.Sum(binary.BigEndian.AppendUint64(nil, uint64(i))), Size: int64(i) * 7, Mode: cas.File,
		}
		if i%10 == 0 {
			files[i].Ref, files[i].Version = fmt.Sprintf("tool:acme/package-%03d/module_%05d", i/100, i), "1.0.0"
		}
	}
	body, list, err := AppendFileList(nil, &FileList{BundleID: "acme/tools", Version: "1.0.0"}, files)
	if err != nil {
		b.Fatal(err)
	}
	return list, files, body
}

// againstHash reports what an iteration takes as a multiple of hashing the bytes, on this machine and in this run.
func againstHash(b *testing.B, body []byte) {
	begin := time.Now()
	for range 3 {
		cas.Sum(body)
	}
	alone := time.Since(begin) / 3
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(alone), "x-hash")
}

// What reading a file list costs, beside hashing the same bytes: "canonical" is the scan alone, "read" everything
// that ReadFileList does, hashing, paths and refs included.
func BenchmarkFileList(b *testing.B) {
	list, files, body := benchList(b)
	b.Run("hash", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if cas.Sum(body) != list.ID {
				b.Fatal("digest")
			}
		}
	})
	b.Run("canonical", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		s := canon.NewScanner(nil, &fileListSpec)
		r := bytes.NewReader(body)
		for b.Loop() {
			n := 0
			r.Reset(body)
			for s.Reset(r); s.Scan(); n++ {
			}
			if s.Err() != nil || n != benchFiles {
				b.Fatal(s.Err(), n)
			}
		}
		againstHash(b, body)
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if l, err := ReadFileList(bytes.NewReader(body), func(*File) error {
				return nil
			}); err != nil || l.ID != list.ID {
				b.Fatal(err)
			}
		}
		againstHash(b, body)
	})
	b.Run("append", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		dst := make([]byte, 0, len(body)+1)
		for b.Loop() {
			if _, l, err := AppendFileList(dst, list, files); err != nil || l.ID != list.ID {
				b.Fatal(err)
			}
		}
	})
}
