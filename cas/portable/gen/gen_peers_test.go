//go:build peers

package gen

import (
	"os"
	"testing"

	"github.com/rye-build/rye/cas/goldentest"
)

// TestTablesAreGenerated needs Debian's package unicode-data.
func TestTablesAreGenerated(t *testing.T) {
	got, err := generate(os.DirFS("/usr/share/unicode"), "15.0.0")
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, "../tables.go", got)
}
