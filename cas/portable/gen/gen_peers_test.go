//go:build peers

package gen

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the tables")

// TestTablesAreGenerated needs Debian's package unicode-data.
func TestTablesAreGenerated(t *testing.T) {
	got, err := generate(os.DirFS("/usr/share/unicode"), "15.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("../tables.go", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("../tables.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("tables.go is not what go generate writes")
	}
}
