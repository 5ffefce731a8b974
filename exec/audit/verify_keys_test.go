package audit

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// Keys that count: the machine's own, a user's that vouches, any; none says only that the journals agree.
func TestKeys(t *testing.T) {
	dir := twoSegments(t)
	stranger := keytest.Named("stranger").Public()
	for _, c := range []struct {
		name string
		keys []key.Public
		by   key.Public
		ok   bool
	}{
		{"the machine", []key.Public{machineKey.Public()}, machineKey.Public(), true},
		{"the user", []key.Public{stranger, userKey.Public()}, userKey.Public(), true},
		{"a stranger", []key.Public{stranger}, key.Public{}, false},
		{"no keys", nil, key.Public{}, true},
	} {
		r, err := Verify(t.Context(), dir, c.keys)
		must(t, err)
		if len(r.Machines) != 1 || r.Machines[0].By != c.by || (len(r.Problems) == 0) != c.ok {
			t.Errorf("%s: %+v %v", c.name, r, r.Problems)
		}
	}
	// Who vouches later vouches for what was before.
	dir = filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, func(o *Options) { o.Voucher = nil })
	run(t, l, "a")
	must(t, l.Close(t.Context()))
	if r := verify(t, dir); len(r.Problems) != 1 {
		t.Errorf("%v", r.Problems)
	}
	l = newLog(t, dir, nil)
	run(t, l, "b")
	must(t, l.Close(t.Context()))
	sound(t, dir)
}

func TestVersions(t *testing.T) {
	dir := twoSegments(t)
	later := func(i int, l *record.Line) {
		if i == 0 {
			l.Body = bytes.Replace(l.Body, []byte(format), []byte("rye audit/2"), 1)
		}
	}
	segment := segmentsOf(t, dir)[0]
	good := read(t, segment)
	want := `the audit log has the format "rye audit/2", expected "rye audit/1"`
	rechain(t, segment, later)
	if _, err := Verify(t.Context(), dir, nil); err == nil || err.Error() != want {
		t.Error(err)
	}
	write(t, segment, good)
	rechain(t, headPath(dir), later)
	if _, err := Verify(t.Context(), dir, nil); err == nil || err.Error() != want {
		t.Error(err)
	}
	if _, err := newLog(t, dir, nil).Begin(t.Context(), call("x")); err == nil || err.Error() != want {
		t.Error(err)
	}
}

func TestCancelled(t *testing.T) {
	dir := twoSegments(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(nil)
	if _, err := Verify(ctx, dir, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, err := range List(ctx, dir, Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
