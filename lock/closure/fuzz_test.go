package closure_test

import (
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// A credulous examiner admits everything, so that all that a file says is followed.
type credulous struct{}

func (credulous) Examine(s admission.Subject, _ io.ReadSeeker, _ policy.Purpose) (*admission.Exam, error) {
	return &admission.Exam{Subject: s, Decision: policy.Decision{Answer: policy.Answer{Allowed: true,
		Code: policy.Admitted}}}, nil
}

// FuzzClose: whatever an item says, there are problems or a closure that a lock can hold, and the same one again.
func FuzzClose(f *testing.F) {
	paths := []string{"directives/acme/x.md", "knowledge/acme/x.md", "tools/acme/x.yaml", "tools/acme/x.py",
		"config/acme/x.yaml"}
	for i, text := range []string{
		directive("acme/x", releaseHead, releaseBody), note("acme/x", "acme/y", "tool:acme/y", "acme/x"),
		tool("acme/x", "acme/y", `permissions: ["execute:tool:acme/*"]`), pyTool("acme/x", "acme/x"),
		"a: {b: [1, 2.5]}\n",
	} {
		f.Add(uint8(i), []byte(text))
	}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		path := paths[int(which)%len(paths)]
		w := &world{spaces: map[string]files{
			"project": {"knowledge/acme/y.md": note("acme/y", "acme/x"), "tools/acme/y.yaml": tool("acme/y", start),
				path: string(text)},
			base: {"knowledge/acme/x.md": note("acme/x"), "tools/acme/hello.sh": shTool("acme/hello"),
				"config/acme/x.yaml": "a: {c: 1}\n"},
		}}
		b := w.lay(t)
		close := func(store closure.Store) (*closure.Closure, error) {
			o := b.options(store)
			o.Admit = ai.NewAdmitter(b.view, credulous{})
			return closure.Close(t.Context(), o)
		}
		c, err := close(nil)
		again, err2 := close(batch(t))
		if err != nil {
			if err2 == nil || err.Error() != err2.Error() {
				t.Fatalf("first %v, then %v", err, err2)
			}
			return
		}
		if err2 != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("another closure the second time: %v", err2)
		}
		l, err := file.Append(nil, &file.Lock{Pins: c.Pins, Definitions: c.Definitions})
		if err != nil {
			t.Fatal(err)
		}
		read, err := file.Parse(l)
		if err != nil || !reflect.DeepEqual(read.Pins, c.Pins) {
			t.Fatalf("a lock says something else: %v", err)
		}
		for _, u := range c.Uses {
			if u.Pattern == "" && !slices.ContainsFunc(c.Pins, func(p file.Pin) bool { return p.Ref == u.To }) {
				t.Fatalf("%+v leads to no pin", u)
			}
		}
	})
}
