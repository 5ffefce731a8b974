package closure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/closure"
)

// An Error has the gravest code of its problems, and hints for what all of them need.
func TestFault(t *testing.T) {
	project := &ai.Space{Label: "project"}
	at := func(ref string, err error) *closure.Problem {
		p := &closure.Problem{Space: project, Path: "x.md", Err: err}
		if ref != "" {
			var perr error
			if p.Ref, perr = model.ParseRef(ref); perr != nil {
				t.Fatal(perr)
			}
		}
		return p
	}
	unsigned, changed := fault.New(fault.Unsigned, "unsigned"), fault.New(fault.Integrity, "changed")
	root := &closure.Problem{Err: errors.New("no such item")}
	for _, tc := range []struct {
		name     string
		problems []*closure.Problem
		code     fault.Code
		hint     string
	}{
		{"a root", []*closure.Problem{root}, fault.Validation, "rye ls"},
		{"an invalid item", []*closure.Problem{at("tool:a/b", errors.New("odd"))}, fault.Validation,
			"rye check; rye verify '**'"},
		{"unsigned items", []*closure.Problem{at("tool:a/b", unsigned), at("tool:a/c", unsigned)}, fault.Unsigned,
			"rye lock --sign tool:a/b tool:a/c"},
		{"a changed item", []*closure.Problem{at("tool:a/b", changed), at("tool:a/c", unsigned)}, fault.Integrity,
			"rye lock --sign tool:a/b tool:a/c"},
		{"an invalid signature", []*closure.Problem{at("tool:a/b", fault.New(fault.SignatureInvalid, "bad"))},
			fault.SignatureInvalid, "rye lock --sign tool:a/b"},
		{"many unsigned items", slices.Repeat([]*closure.Problem{at("tool:a/b", unsigned)}, 21), fault.Unsigned,
			"rye sign --all"},
		{"also others", []*closure.Problem{at("tool:a/b", unsigned), at("", changed)}, fault.Integrity,
			"rye check; rye verify '**'"},
		{"damage", []*closure.Problem{at("tool:a/b", fmt.Errorf("read: %w", &cas.DamagedError{}))}, fault.Integrity,
			"rye vendor --check; rye store fsck"},
		{"busy", []*closure.Problem{root, at("tool:a/b", fault.New(fault.Busy, "busy").Try("rye doctor"))}, fault.Busy,
			"rye doctor"},
	} {
		f := fault.Of(fmt.Errorf("lock: %w", &closure.Error{Problems: tc.problems}))
		if hint := strings.Join(f.Hint, "; "); f.Code != tc.code || hint != tc.hint {
			t.Errorf("%s: %s, %q", tc.name, f.Code, hint)
		}
		if tc.code != fault.Busy && f.Details["problems"] != len(tc.problems) {
			t.Errorf("%s: %v", tc.name, f.Details)
		}
	}
	if f := fault.Of(&closure.Error{Problems: []*closure.Problem{at("",
		context.Canceled)}}); f.Code != fault.Cancelled {
		t.Error(f.Code)
	}
}
