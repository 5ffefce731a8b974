//go:build peers

package main

import (
	"bytes"
	"os"
	"testing"
)

// TestTablesAreGenerated needs Debian's package unicode-data.
func TestTablesAreGenerated(t *testing.T) {
	got, err := generate(os.DirFS("/usr/share/unicode"), "15.0.0")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../tables.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("tables.go is not what go generate writes")
	}
}
