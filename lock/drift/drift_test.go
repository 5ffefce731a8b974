package drift

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
)

// TestDifference: a difference names the item, the file and how it differs: a user who reads of a missing file
// where only the executable bit differs restores what they have.
func TestDifference(t *testing.T) {
	ref := model.Ref{Kind: "tool", ID: "acme/x"}
	a, b := cas.Sum([]byte("a")), cas.Sum([]byte("b"))
	const at = "tools/acme/x.py"
	for _, c := range []struct {
		d    Difference
		want string
	}{
		{Difference{Kind: Gone, Ref: ref, Path: at}, `"tool:acme/x": "tools/acme/x.py" is missing`},
		{Difference{Kind: Added, Ref: ref, Path: at},
			`"tool:acme/x": "tools/acme/x.py" is a new file of the tool, not in the lock`},
		{Difference{Kind: Unpinned, Ref: ref, Path: at},
			`"tool:acme/x": "tools/acme/x.py" is not in the lock but would be used`},
		{Difference{Kind: Unreadable, Ref: ref, Path: at, Err: fs.ErrPermission}, `"tool:acme/x": permission denied`},
		{Difference{Kind: Unreadable, Path: at, Err: fs.ErrPermission}, "permission denied"},
		{Difference{Kind: Changed, Ref: ref, Path: at, Expected: a, Found: b},
			`"tool:acme/x": "tools/acme/x.py" is locked as ` + a.Short() + ", but is " + b.Short()},
		{Difference{Kind: Changed, Ref: ref, Path: at, Expected: a, Found: b, OnlyLineEndings: true},
			`"tool:acme/x": "tools/acme/x.py" is locked as ` + a.Short() + ", but is " + b.Short() +
				": only line endings differ"},
		{Difference{Kind: Changed, Ref: ref, Path: at, Expected: a, Found: a, OnlyMode: true},
			`"tool:acme/x": the executable bit of "tools/acme/x.py" differs`},
	} {
		if got := c.d.Error(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		if c.d.Err != nil && !errors.Is(&c.d, fs.ErrPermission) {
			t.Errorf("%s: the cause is lost", c.want)
		}
	}
}
