package audit_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/lock/advisory"
)

// TestAdvised finds the items of a call that advisories of their own registry cover.
func TestAdvised(t *testing.T) {
	const here, there = "https://registry.example", "https://other.example"
	r := &audit.Record{Call: record.Call{Ref: "tool:acme/base/x", Bundle: "acme/base@1.0.0", Registry: here,
		Chain: []record.Link{
			{Ref: "tool:acme/run/r", Bundle: "acme/run@2.0.0", Registry: here},
			{Ref: "tool:acme/far/r", Bundle: "acme/far@2.0.0", Registry: there},
			{Ref: "tool:rye/p"}, {Ref: "tool:rye/q", Bundle: "odd", Registry: here},
		}}}
	var asked []string
	covering := func(registry, bundle, version string) ([]*advisory.Advisory, error) {
		asked = append(asked, registry+" "+bundle+" "+version)
		if registry != here {
			return nil, nil
		}
		return []*advisory.Advisory{{ID: bundle}}, nil
	}
	found, err := audit.Advised(r, covering)
	if err != nil || len(found) != 2 || found[0].Item != "tool:acme/base/x" || found[0].Bundle != "acme/base@1.0.0" ||
		found[1].Item != "tool:acme/run/r" || found[1].Advisory.ID != "acme/run" || found[1].Record != r {
		t.Errorf("%+v, %v", found, err)
	}
	want := []string{here + " acme/base 1.0.0", here + " acme/run 2.0.0", there + " acme/far 2.0.0"}
	if !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
	failed := errors.New("unreadable")
	if _, err := audit.Advised(r, func(string, string, string) ([]*advisory.Advisory, error) {
		return nil, failed
	}); err != failed {
		t.Error(err)
	}
}
