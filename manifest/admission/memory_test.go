package admission_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// What is remembered counts under the same key, policies and lists, until time could change the answer.
func TestMemory(t *testing.T) {
	day := 24 * time.Hour
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	text := fmt.Sprintf(
		"rye: policy/2\nkeys:\n  alice: {key: %q, expires: \"2026-11-25\"}\n  bob: {key: %q, not-before: \"2026-11-22\"}\n"+
			"names:\n  \"**\": {keys: [alice]}\nlists:\n  acme: {from: x, key: alice, max-age: 7d}\n", alice.Public(),
		bob.Public())
	parse := func(text string) *policy.Policy {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	list := &policy.List{ID: cas.Sum([]byte("1")), Issued: start.Add(-day), Expires: start.Add(20 * day)}
	trust := func(now time.Time) *admission.Trust {
		return &admission.Trust{Root: policy.Side{Policy: parse(text),
			Lists: map[string]*policy.List{"acme": list, "none": nil}}, Now: now}
	}
	m := &admission.Memory{File: filepath.Join(t.TempDir(), "new", "seen")}
	key, value := cas.Sum([]byte("key")), []byte("a value\nof two lines\n")
	if _, ok := m.Recall(trust(start), key); ok {
		t.Error("without a file something is remembered")
	}
	for _, s := range []struct {
		from, to time.Duration
		want     bool
	}{
		{0, 0, true},
		{0, day, true},
		{0, -time.Second, false},
		{day, 2 * day, false}, // bob's key begins on the 22nd at midnight, a day and a half hence
		{2 * day, 4 * day, true},
		{4 * day, 5 * day, false}, // alice's ends on the 25th
		{5*day - time.Hour, 7 * day, false},
		{6 * day, 19 * day, true},
		{19 * day, 20 * day, false},
		{-2 * day, -day - time.Second, true},
		{-2 * day, -day, false}, // the list begins
	} {
		m.Keep(trust(start.Add(s.from)), key, value)
		if says := trust(start.Add(s.to)).Says(trust(start.Add(s.from))); says != s.want {
			t.Errorf("from %v to %v it says the same: %t", s.from, s.to, says)
		}
		got, ok := m.Recall(trust(start.Add(s.to)), key)
		if ok != s.want || ok && !bytes.Equal(got, value) {
			t.Errorf("from %v to %v: %v, %v", s.from, s.to, got, ok)
		}
	}
	for name, change := range map[string]func(*admission.Trust){
		"another policy": func(x *admission.Trust) { x.Root.Policy = parse(strings.Replace(text, "7d", "8d", 1)) },
		"a project's":    func(x *admission.Trust) { x.Project = &policy.Side{Policy: parse(text)} },
		"another list": func(x *admission.Trust) {
			l := *list
			l.ID = cas.Sum([]byte("2"))
			x.Root.Lists = map[string]*policy.List{"acme": &l}
		},
		"no list":   func(x *admission.Trust) { x.Root.Lists = nil },
		"no policy": func(x *admission.Trust) { x.Root = policy.Side{} },
		"more lists": func(x *admission.Trust) {
			x.Root.Lists = map[string]*policy.List{"acme": list, "none": list}
		},
	} {
		m.Keep(trust(start), key, value)
		other := trust(start)
		change(other)
		if _, ok := m.Recall(other, key); ok {
			t.Errorf("%s makes no difference", name)
		}
		if other.Says(trust(start)) || trust(start).Says(other) {
			t.Errorf("%s says the same", name)
		}
		same := trust(start)
		change(same)
		if name != "a project's" && name != "no policy" && !other.Says(same) {
			t.Errorf("%s says something else than itself", name)
		}
	}
	// The order of lists makes no difference: otherwise a check is repeated now and then.
	many := trust(start)
	for i := range 9 {
		many.Root.Lists[fmt.Sprint(i)] = list
	}
	m.Keep(many, key, value)
	for range 20 {
		if _, ok := m.Recall(many, key); !ok {
			t.Fatal("nothing has changed")
		}
	}
	both := [2]*admission.Trust{trust(start), trust(start)}
	for i, x := range both {
		x.Project = &policy.Side{Policy: parse(text + "#" + strings.Repeat("#", i))}
	}
	if p := both[0].Project.Policy.ID() == both[1].Project.Policy.ID(); both[0].Says(both[1]) != p {
		t.Error("the project's policy differs, if its id does")
	}
	if _, ok := m.Recall(trust(start), cas.Sum([]byte("other"))); ok {
		t.Error("another key makes no difference")
	}
}

// Every byte of the file counts.
func TestMemoryDamaged(t *testing.T) {
	x := &admission.Trust{Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	m := &admission.Memory{File: filepath.Join(t.TempDir(), "seen")}
	key, value := cas.Sum([]byte("key")), []byte("a value\nof two lines\n")
	m.Keep(x, key, value)
	b, err := os.ReadFile(m.File)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := m.Recall(x, key); !ok || !bytes.Equal(got, value) {
		t.Fatalf("%v, %v", got, ok)
	}
	for i := range b {
		for _, damaged := range [][]byte{b[:i], append(append(append([]byte{}, b[:i]...), b[i]^1), b[i+1:]...)} {
			if err := os.WriteFile(m.File, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, ok := m.Recall(x, key); ok {
				t.Fatalf("with byte %d changed it says %v", i, got)
			}
		}
	}
	(&admission.Memory{File: filepath.Join(m.File, "no directory", "seen")}).Keep(x, key, value)
}
