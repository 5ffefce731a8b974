package registry_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// nextLog is the key that a log gets in these tests.
func nextLog(t testing.TB) tlog.Key {
	t.Helper()
	log, err := tlog.NewKey("registry.example/log", keytest.Seeded(3).Public())
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func rotation(t testing.TB, entries int64, root tlog.Hash) *registry.Rotation {
	t.Helper()
	return &registry.Rotation{Registry: "registry.example", Before: description(t).Log, Log: nextLog(t),
		Entries: entries, Root: root, Time: noon}
}

func TestRotationGolden(t *testing.T) {
	b, err := rotation(t, 0, new(tlog.Tail).Root()).Append(nil, keytest.Seeded(1), keytest.Seeded(3))
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, filepath.Join("testdata", "rotation.yaml"), b)
	again, err := registry.ParseRotation(b)
	if err != nil || again.Name != "rotation:registry:registry.example" || again.Entries != 0 ||
		again.Before != description(t).Log || again.Log != nextLog(t) || !again.Time.Equal(noon) {
		t.Errorf("%+v, %v", again, err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	body := strings.Join(lines[2:], "")
	for name, changed := range map[string]string{
		"one signature":     strings.Join(lines[1:], ""),
		"the other":         lines[0] + strings.Join(lines[2:], ""),
		"another size":      strings.Replace(string(b), "entries: 0", "entries: 1", 1),
		"another format":    strings.Replace(string(b), "rotation/1", "rotation/2", 1),
		"more":              string(b) + "more: 1\n",
		"another registry":  strings.ReplaceAll(string(b), `"registry.example"`, `"registry.other"`),
		"a line in between": strings.Replace(string(b), "\nlog:", "\n# words\nlog:", 1),
		"too much":          string(b) + strings.Repeat("#", registry.MaxRotation),
		"no lines":          strings.Repeat(string(b), 2),
		"a short root":      strings.Replace(body, "47DEQpj8HBSa", "", 1),
		"another day":       strings.Replace(body, `time: "2026-11-20T12`, `time: "2026-11-31T12`, 1),
		"the old key again": strings.Replace(body, nextLog(t).String(), description(t).Log.String(), 1),
		"no key":            strings.Replace(body, "+9c2dabef+", "+", 1),
		"no new key":        strings.Replace(body, "+95541b8e+", "+", 1),
		"no name":           strings.Replace(body, "name: ", "more: ", 1),
		"nothing signed":    body,
	} {
		if changed == string(b) {
			t.Fatalf("%s changes nothing", name)
		}
		if r, err := registry.ParseRotation([]byte(changed)); err == nil {
			t.Errorf("%s is read as %+v", name, r)
		}
	}
	same := rotation(t, 0, tlog.Hash{})
	same.Log = same.Before
	if _, err := same.Append(nil, keytest.Seeded(1), keytest.Seeded(1)); err == nil {
		t.Error("a key replaces itself")
	}
	if _, err := rotation(t, 0, tlog.Hash{}).Append(nil, keytest.Seeded(1), keytest.Seeded(4)); err == nil {
		t.Error("another key signs for the new one")
	}
}

func FuzzRotation(f *testing.F) {
	b, err := rotation(f, 7, tlog.Hash{1}).Append(nil, keytest.Seeded(1), keytest.Seeded(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := registry.ParseRotation(b)
		if err != nil {
			return
		}
		again, err := r.Append(nil, keytest.Seeded(1), keytest.Seeded(3))
		if err == nil && !bytes.Equal(again, b) && len(r.Signatures) == 2 {
			t.Fatalf("%q becomes %q", b, again)
		}
	})
}

// rotate has the site's log go on with the next key, and shows a rotation unless it is nil.
func (s *site) rotate(document []byte) {
	s.Helper()
	before := s.log
	s.log = nextLog(s)
	text, err := tlog.Sign(s.log, keytest.Seeded(3), s.tail.Size(), s.tail.Root())
	if err != nil {
		s.Fatal(err)
	}
	s.files["log/checkpoint"] = text
	if document != nil {
		s.files[registry.RotationFile(before)] = document
	}
}

// TestRotation: another key of a known log is an alarm; a rotation by both keys turns it into a question to a person,
// and after the answer the log goes on where it was.
func TestRotation(t *testing.T) {
	s, ada := newSite(t), newPerson(t)
	s.publish("1.0.0", noon)
	s.show()
	if err := ada.take(t, s, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	old := *s
	document, err := rotation(t, s.tail.Size(), s.tail.Root()).Append(nil, keytest.Seeded(1), keytest.Seeded(3))
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Join(bytes.SplitAfter(document, []byte("\n"))[1:], nil)

	// The old key stands in rye.yaml, or in the memory of a person whose rye.yaml has the new one.
	s.rotate(nil)
	for _, log := range []tlog.Key{old.log, s.log} {
		for _, c := range []struct {
			document []byte
			hint     string
			code     fault.Code
		}{
			{nil, "rye docs", fault.Rollback}, {forged, "rye docs", fault.Rollback},
			{document, "rye trust add --rotation " + url + "/" + registry.RotationFile(old.log), fault.UntrustedKey},
		} {
			delete(s.files, registry.RotationFile(old.log))
			if c.document != nil {
				s.files[registry.RotationFile(old.log)] = c.document
			}
			client := ada.client(s)
			client.At.Log = log
			_, err := client.View(t.Context())
			f := fault.Of(err)
			if c.code == fault.Rollback && log == old.log { // what the key in rye.yaml hasn't signed
				c.code, c.hint = fault.Unsigned, ""
			}
			if err == nil || f.Code != c.code || !strings.Contains(strings.Join(f.Hint, "\n"), c.hint) {
				t.Errorf("%s: %+v", log, f)
			}
		}
	}

	// A person says so.
	r, err := registry.ParseRotation(document)
	if err != nil {
		t.Fatal(err)
	}
	client := ada.client(s)
	if err := client.Follow(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := client.Follow(t.Context(), r); err != nil {
		t.Errorf("again: %v", err)
	}
	s.publish("1.1.0", noon.Add(2*time.Hour))
	for _, f := range s.tail.Partial() {
		s.files["log/"+f.Name] = bytes.Clone(f.Data)
	}
	text, err := tlog.Sign(s.log, keytest.Seeded(3), s.tail.Size(), s.tail.Root())
	if err != nil {
		t.Fatal(err)
	}
	s.files["log/checkpoint"] = text
	if err := ada.take(t, s, "1.0.0"); err != nil {
		t.Error(err)
	}
	// The old key counts no more, whatever rye.yaml says.
	client.At.Log = old.log
	if _, err := client.View(t.Context()); fault.CodeOf(err) != fault.Rollback &&
		fault.CodeOf(err) != fault.UntrustedKey {
		t.Errorf("the old key: %v", err)
	}
}

// TestRotationForks: a log that doesn't continue what its old key has signed, or what this user saw, isn't followed,
// and nothing of it is remembered.
func TestRotationForks(t *testing.T) {
	for name, fork := range map[string]func(s *site) *registry.Rotation{
		"another tree": func(s *site) *registry.Rotation {
			r := rotation(t, s.tail.Size(), s.tail.Root())
			s.tail, s.entries = tlog.Tail{}, nil
			s.publish("1.0.0", noon.Add(time.Minute))
			s.publish("2.0.0", noon.Add(time.Minute))
			s.show()
			return r
		},
		"another root in the rotation": func(s *site) *registry.Rotation {
			return rotation(t, s.tail.Size(), tlog.Hash{1})
		},
		"a shorter log": func(s *site) *registry.Rotation {
			s.tail = tlog.Tail{}
			return rotation(t, 0, s.tail.Root())
		},
	} {
		s, ada := newSite(t), newPerson(t)
		s.publish("1.0.0", noon)
		s.show()
		if err := ada.take(t, s, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		old := s.log
		r := fork(s)
		s.rotate(nil)
		if err := ada.client(s).Follow(t.Context(), r); err == nil {
			t.Errorf("%s is followed", name)
		}
		client := ada.client(s)
		if _, err := client.View(t.Context()); fault.CodeOf(err) != fault.Rollback {
			t.Errorf("%s: the new key is remembered: %v", name, err)
		}
		if client.At.Log = old; client.At.Log == s.log {
			t.Fatal("no rotation")
		}
	}
}
