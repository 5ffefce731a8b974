package exec_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/consent"
)

// approved returns the approval that a person gives to a call as it is now.
func (w *world) approved(c *exec.Call) *consent.Approval {
	w.Helper()
	target, err := w.kernel.Resolve(w.Context(), w.base(), c)
	if err != nil {
		w.Fatal(err)
	}
	subject, err := target.Asked().Subject()
	if err != nil {
		w.Fatal(err)
	}
	return &consent.Approval{By: "bob", For: subject}
}

// TestApproved: an approval is for one call of one version of a tool. If anything of it changes between the approval
// and Prepare, the call is refused, and none of its files is copied.
func TestApproved(t *testing.T) {
	given := map[string]any{"amount": 5.0}
	for name, change := range map[string]func(*world, *exec.Call){
		"nothing":  func(*world, *exec.Call) {},
		"the file": func(w *world, _ *exec.Call) { w.with("risk: write") },
		"the risk": func(_ *world, c *exec.Call) { c.Approval.For.Risk = "money" },
		"the set":  func(_ *world, c *exec.Call) { c.Approval.For.Set = cas.Sum(nil) },
		"the tool": func(_ *world, c *exec.Call) { c.Approval.For.Ref.ID = "acme/y" },
		"the parameters": func(_ *world, c *exec.Call) {
			c.Params = call(x, map[string]any{"amount": 6.0}).Params
		},
		"the caller":         func(_ *world, c *exec.Call) { c.Principal = "eve" },
		"the tenant":         func(_ *world, c *exec.Call) { c.Tenant = "acme" },
		"it was never bound": func(_ *world, c *exec.Call) { c.Approval = &consent.Approval{By: "bob"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).with()
			before := w.copies()
			c := call(x, given)
			c.Approval = w.approved(c)
			change(w, c)
			if name == "nothing" {
				w.prepare(c)
				return
			}
			if err := w.refused(c); fault.CodeOf(err) != fault.Conflict {
				t.Errorf("%v", err)
			}
			if after := w.copies(); after != before {
				t.Errorf("%d entries in the cache of copies, %d before", after, before)
			}
		})
	}
}

// copies counts the files in the cache of copies.
func (w *world) copies() (n int) {
	w.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "cache"), func(_ string, _ fs.DirEntry, err error) error {
		n++
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return n
}
