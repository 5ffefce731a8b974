package client

import (
	"bytes"
	"os"
	"testing"
)

// FuzzList: what is accepted is written as the same bytes.
func FuzzList(f *testing.F) {
	b, err := os.ReadFile("testdata/installed.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := Parse(b)
		if err != nil {
			return
		}
		if out, err := in.Bytes(); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%q became %q, %v", b, out, err)
		}
	})
}
