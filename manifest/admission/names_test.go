package admission_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]sign.Domain{
		"tool:a": sign.Item, "x:a": sign.Item, "a": sign.Item, "": sign.Item, "bundle:a@1.0.0": sign.Manifest,
		"policy:a":      sign.Policy,
		"revocations:a": sign.Revocations, "rotation:a": sign.Rotation, "index:a": sign.Index, "token:a": sign.Token,
		"transcript:a": sign.Transcript, "audit:a": sign.Audit, "advisories:a": sign.Advisories,
	} {
		if got := admission.Domain(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]sign.Style{
		"tool:a": sign.Angle | sign.V1Tool, "directive:a": sign.Angle | sign.V1Directive, "knowledge:a": sign.Angle |
			sign.V1Knowledge,
		"x:a": sign.Angle, "bundle:a": sign.Hash | sign.V1Tool, "policy:a": sign.Hash,
	} {
		if got := (admission.Subject{Name: name, Style: sign.Angle}).Signing(); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	if got := (admission.Subject{Name: "tool:a"}).Signing(); got != sign.NoStyle {
		t.Errorf("a file without comments: %v", got)
	}
	for want, err := range map[string]error{
		`the document is "b", not "a\n"`: &admission.NameError{"a\n", "b"},
		`"a" expired at 2026-11-20T12:00:00Z; the clock says 2026-11-20T13:00:00Z`: &admission.ExpiredError{"a", noon,
			noon.Add(time.Hour)},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

// FuzzExamine wants unsigned bytes never to be allowed, under any name, and no panic.
func FuzzExamine(f *testing.F) {
	bundle := admission.Subject{Name: "bundle:acme/x@1.0.0"}
	for _, seed := range []struct {
		name string
		file []byte
	}{
		{"tool:acme/t", signed(f, item("tool:acme/t"), source, eve)}, {bundle.Name, signed(f, bundle, list, eve)},
		{"rotation:rotated/**", rotation(f, eve)}, {"revocations:acme", []byte(revocations)},
		{"policy:x", []byte("rye: policy/2\n")}, {"x", nil},
	} {
		f.Add(seed.name, uint8(sign.Hash), seed.file)
	}
	x := trust(f, two)
	f.Fuzz(func(t *testing.T, name string, style uint8, file []byte) {
		for _, voucher := range []policy.Voucher{policy.ByKeys, policy.Dev} {
			s := admission.Subject{Name: name, Style: sign.Style(style) % (sign.Dashes + 1), Voucher: voucher}
			e, err := x.Examine(s, bytes.NewReader(file), policy.ToUse)
			if e == nil {
				t.Fatal("no exam")
			}
			if voucher == policy.ByKeys && e.Decision.Allowed {
				t.Fatalf("%q is allowed: %s, %v", name, e.Decision.Reason(), err)
			}
			if err == nil && e.Signed.Raw != cas.Sum(file) {
				t.Fatalf("%q: another digest", name)
			}
		}
	})
}
