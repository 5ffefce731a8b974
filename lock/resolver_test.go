package lock

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// pinned is an item, and a lock that pins it.
func pinned(t *testing.T) (*ai.Item, *file.Pin, *Set) {
	t.Helper()
	kinds := model.Builtin()
	kind := kinds[slices.IndexFunc(kinds, func(k *model.Kind) bool { return k.Name == "tool" })]
	ref := model.Ref{Kind: "tool", ID: "acme/run"}
	it := edit.Draft(ai.File{Ref: ref, Kind: kind, Space: &ai.Space{Label: file.FromProject},
		Path: "tools/acme/run.yaml"}, []byte(itemtest.Tool("acme/run", "rye/core/primitives/subprocess")))
	taken, err := it.Model.Interface().Hash()
	if err != nil {
		t.Fatal(err)
	}
	grants, err := it.Model.Grants().Hash()
	if err != nil {
		t.Fatal(err)
	}
	pin := file.Pin{Ref: ref, Version: "1.2.3", Digest: it.Raw, From: file.FromProject, Path: it.Path,
		Interface: taken, Grants: grants}
	l := &file.Lock{Pins: []file.Pin{pin}}
	return it, &l.Pins[0], &Set{&Side{lock: l, places: map[model.Ref]place{ref: {path: it.Path}}}}
}

// TestMatch: what is found for a pin is refused if it differs from it in anything, by itself. A set reads only bytes
// with the pins' digests, so a difference here means that another check has failed.
func TestMatch(t *testing.T) {
	other := cas.Sum([]byte("other"))
	for want, change := range map[string]func(*ai.Item, *file.Pin){
		"":          func(*ai.Item, *file.Pin) {},
		"space":     func(it *ai.Item, _ *file.Pin) { it.Space = &ai.Space{Label: "system:acme/evil"} },
		"path":      func(it *ai.Item, _ *file.Pin) { it.Path = "tools/acme/other.yaml" },
		"digest":    func(it *ai.Item, _ *file.Pin) { it.Raw = other },
		"version":   func(_ *ai.Item, pin *file.Pin) { pin.Version = "1.2.4" },
		"interface": func(_ *ai.Item, pin *file.Pin) { pin.Interface = other },
		"grants":    func(_ *ai.Item, pin *file.Pin) { pin.Grants = other },
	} {
		it, pin, set := pinned(t)
		change(it, pin)
		err := set.match(pin, it)
		if want == "" {
			if err != nil {
				t.Errorf("the pinned item is refused: %v", err)
			}
			continue
		}
		if fault.CodeOf(err) != fault.LockMismatch || !strings.Contains(err.Error(), want) {
			t.Errorf("another %s: %v", want, err)
		}
	}
}

// admits is an examiner that admits everything, with these bytes.
type admits struct{ raw cas.Digest }

func (a admits) Examine(admission.Subject, io.ReadSeeker, policy.Purpose) (*admission.Exam, error) {
	return &admission.Exam{Signed: sign.Signed{Raw: a.raw}}, nil
}

// TestExaminer: an admitted item counts only with the bytes and the other files that are pinned. An item without a pin
// never counts, however it is signed.
func TestExaminer(t *testing.T) {
	other := cas.Sum([]byte("other"))
	for name, c := range map[string]struct {
		subject admission.Subject
		raw     cas.Digest
		want    fault.Code
	}{
		"pinned":       {admission.Subject{Name: "tool:acme/run"}, cas.Digest{}, ""},
		"other bytes":  {admission.Subject{Name: "tool:acme/run"}, other, fault.LockMismatch},
		"other files":  {admission.Subject{Name: "tool:acme/run", Tree: other}, cas.Digest{}, fault.LockMismatch},
		"without pin":  {admission.Subject{Name: "tool:acme/evil"}, cas.Digest{}, fault.NotLocked},
		"the binary's": {admission.Subject{Name: "tool:rye/x", Voucher: policy.Builtin}, cas.Digest{}, ""},
		"config":       {admission.Subject{Name: "config:acme"}, other, ""},
	} {
		it, _, set := pinned(t)
		raw := c.raw
		if raw.IsZero() {
			raw = it.Raw
		}
		_, err := set.Examiner(admits{raw}).Examine(c.subject, nil, policy.ToUse)
		if c.want == "" && err != nil || c.want != "" && fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
