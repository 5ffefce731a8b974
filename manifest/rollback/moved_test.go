package rollback

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

// TestMoved: a name moves on from versions that the user asked for, and they stay what they were. Otherwise a registry
// could exchange one of them once the name has moved, or the next update fails.
func TestMoved(t *testing.T) {
	j := newJournal(t)
	west := noon.In(time.FixedZone("west", -3600)).Add(time.Millisecond)
	first := step("bundle:a", "1.1.0", "x")
	first.At = west
	mustRecord(t, j, first)
	mustRecord(t, j, moved(step("bundle:a", "1.1.0", "x")))
	mustRecord(t, j, step("bundle:b", "1.0.0", "b"))
	mustRecord(t, j, moved(step("bundle:b", "1.1.0", "b1")))
	mustRecord(t, j, step("revocations:l", "9", "nine"), moved(step("revocations:l", "7", "seven")),
		moved(step("revocations:l", "8", "eight")))
	want := []Step{moved(step("bundle:a", "1.1.0", "x")), step("bundle:b", "1.0.0", "b"),
		moved(step("bundle:b", "1.1.0", "b1")), step("revocations:l", "9", "nine"),
		moved(step("revocations:l", "8", "eight"))}
	if seen, err := j.Seen(); err != nil || !reflect.DeepEqual(seen, want) {
		t.Errorf("%v, %v", seen, err)
	}
	for s, ok := range map[Step]bool{step("revocations:l", "9", "other"): false,
		moved(step("revocations:l", "9", "nine")): true, moved(step("bundle:b", "1.0.0", "b")): false} {
		if err := j.Check(s); (err == nil) != ok {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestCheckNew: a version that any source has released isn't made anew with other files. Everyone who has it would
// refuse the new one.
func TestCheckNew(t *testing.T) {
	j := newJournal(t)
	list := &manifest.FileList{BundleID: "a", Version: "1.0.0"}
	list.ID = cas.Sum([]byte("x"))
	mustRecord(t, j, step("bundle:a", "1.0.0", "x"), step("bundle:b", "1.0.0", "y"), step("bundle:a", "1.1.0", "z"))
	if err := j.CheckNew(list); err != nil {
		t.Error(err)
	}
	list.ID = cas.Sum([]byte("y"))
	if err := j.CheckNew(list); fault.CodeOf(err) != fault.Rollback || fault.Of(err).Details["reason"] != Other {
		t.Error(err)
	}
	var none *Journal
	if err := none.CheckNew(list); err != nil {
		t.Error(err)
	}
	os.WriteFile(j.Path, []byte("x\n"), 0o600)
	if err := j.CheckNew(list); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
}

// TestSteps: what a journal records of documents, and in one word why it refuses.
func TestSteps(t *testing.T) {
	_, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/deploy", Version: "1.4.0"},
		[]manifest.File{{Path: "a", Digest: cas.Sum(nil), Mode: cas.File}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := OfFileList(l, "s", true, noon),
		(Step{"s", "bundle:acme/deploy", "1.4.0", l.ID, true, noon}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	_, r, err := manifest.AppendRevocations(nil, &manifest.Revocations{List: "acme", Counter: 7, Issued: noon,
		Expires: noon.AddDate(0, 1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := OfRevocations(r, "s", noon), (Step{"s", "revocations:acme", "7", r.ID, true, noon}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	j := newJournal(t)
	mustRecord(t, j, moved(step("revocations:acme", "7", "x")))
	mustRecord(t, j, moved(step("bundle:a", "1.1.0", "x")), step("rotation:a", "7", "x"))
	old := moved(step("bundle:a", "1.0.0", "y"))
	for _, c := range []struct {
		step               Step
		reason, said, next string
	}{
		{moved(step("revocations:acme", "6", "y")), Older, "list-older", ""},
		{moved(step("revocations:acme", "7", "y")), Other, "list-forked", ""},
		{old, Older, Older, "rye bundle install " + old.ID.String()},
		{moved(step("bundle:a", "1.1.0", "y")), Other, Other, "rye docs sources"},
		{step("rotation:a", "7", "y"), Other, Other, ""},
	} {
		e, ok := errors.AsType[*Error](j.Check(c.step))
		if !ok || e.Reason() != c.reason {
			t.Errorf("%+v: %v", c.step, e)
			continue
		}
		f := e.Fault()
		if f.Details["reason"] != c.said || strings.Join(f.Hint, "\n") != c.next ||
			(f.Details["seen"] == nil) == strings.HasPrefix(c.step.Name, "bundle:") {
			t.Errorf("%+v: %+v, %q", c.step, f.Details, f.Hint)
		}
	}
}
