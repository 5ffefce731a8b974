package admission_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// TestKnown: what was read of a file before counts for the same bytes, and for no others. Otherwise a changed file
// would pass by the signature of the one before it.
func TestKnown(t *testing.T) {
	tool, bundle := item("tool:acme/t"), admission.Subject{Name: "bundle:acme/x@1.0.0"}
	file := signed(t, tool, source, alice)
	read, err := sign.Read(bytes.NewReader(file), tool.Signing())
	if err != nil {
		t.Fatal(err)
	}
	for name, known := range map[string]*admission.Known{
		"other bytes": admission.KnownOf(append(file, 'x'), read, nil),
		"no bytes":    admission.KnownOf(nil, sign.Signed{}, nil),
	} {
		if known != nil {
			t.Errorf("%s: %+v", name, known)
		}
	}
	x := trust(t, two)
	tool.Known = admission.KnownOf(file, read, nil)
	if e, err := x.Examine(tool, unreadable{bytes.NewReader(nil)}, policy.ToUse); err != nil || !e.Decision.Allowed {
		t.Errorf("%+v, %v", e, err)
	}
	tool.Known = &admission.Known{Err: errDisk}
	if _, err := x.Examine(tool, bytes.NewReader(file), policy.ToUse); !errors.Is(err, errDisk) {
		t.Errorf("an error of the reading before: %v", err)
	}
	// A document says itself what it is, and so is read.
	bundle.Known = tool.Known
	if e, err := x.Examine(bundle, bytes.NewReader(signed(t, bundle, list, alice)), policy.ToUse); err != nil ||
		!e.Decision.Allowed {
		t.Errorf("%+v, %v", e, err)
	}
}
