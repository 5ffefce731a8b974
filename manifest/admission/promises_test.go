package admission_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// TestRewound: a file that can't be read from its beginning isn't admitted. Otherwise its end would decide about all.
func TestRewound(t *testing.T) {
	tool := item("tool:acme/t")
	file := append([]byte("print('not signed')\n"), signed(t, tool, source, alice)...)
	r := &failing{bytes.NewReader(file), 0}
	if _, err := io.CopyN(io.Discard, r, int64(len("print('not signed')\n"))); err != nil {
		t.Fatal(err)
	}
	e, err := trust(t, two).Examine(tool, r, policy.ToUse)
	if !errors.Is(err, errDisk) || e.Decision.Allowed {
		t.Errorf("%v, %v", e.Decision.Code, err)
	}
}

// TestDigestOfItem: a digest in a policy admits an item with exactly these bytes. One that a stranger signed is
// another file, even if the rest of it is the same.
func TestDigestOfItem(t *testing.T) {
	tool := item("tool:acme/t")
	x := trust(t, two+"digests:\n  \""+cas.Sum([]byte(source)).String()+"\": {}\n")
	for _, c := range []struct {
		file []byte
		code policy.Code
	}{{[]byte(source), policy.Admitted}, {signed(t, tool, source, eve), policy.UntrustedKey}} {
		e, err := x.Examine(tool, bytes.NewReader(c.file), policy.ToUse)
		if err != nil || e.Decision.Code != c.code {
			t.Errorf("%q: %v, %v", c.file, e.Decision.Code, err)
		}
	}
}

// TestNewList: a trust with another list under the same name says something else. What was decided before would
// otherwise stand after a new list revokes it.
func TestNewList(t *testing.T) {
	with := func(s string) *admission.Trust {
		x := trust(t, two)
		x.Root.Lists = map[string]*policy.List{"acme": {ID: cas.Sum([]byte(s))}}
		return x
	}
	if !with("1").Says(with("1")) {
		t.Error("the same list says something else")
	}
	if with("2").Says(with("1")) {
		t.Error("another list says the same")
	}
}

// TestIdentifyNothing: bytes that are no rotation have no identity, and aren't signed as one.
func TestIdentifyNothing(t *testing.T) {
	for _, name := range []string{"rotation:rotated/**", "revocations:acme", "bundle:acme/x@1.0.0", "policy:team"} {
		_, err := admission.Subject{Name: name}.Identify(strings.NewReader("x\n"), cas.Digest{}, noon)
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
