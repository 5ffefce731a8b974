package registry_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A shelf keeps files in memory.
type shelf map[string][2]string

// Kept implements registry.Keeper.
func (s shelf) Kept(_ context.Context, address string) ([]byte, string, error) {
	file, ok := s[address]
	if !ok {
		return nil, "", fs.ErrNotExist
	}
	return []byte(file[1]), file[0], nil
}

// Keep implements registry.Keeper.
func (s shelf) Keep(_ context.Context, address string, text []byte, etag string) error {
	s[address] = [2]string{etag, string(text)}
	return nil
}

// TestKept: an index and a checkpoint that haven't changed cost one conditional request each and no bytes, and are
// verified as if they had just arrived.
func TestKept(t *testing.T) {
	s, p := newSite(t), newPerson(t)
	p.keeper = shelf{}
	s.publish("1.0.0", noon)
	s.show()
	logs := 0
	index := func() error {
		t.Helper()
		_, err := p.client(s).Index(t.Context(), "acme/base", func() error { logs++; return nil })
		return err
	}
	asks := func(want ...string) {
		t.Helper()
		if !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
		s.asked = nil
	}
	wants(t, index(), "", "")
	asks("index/acme/base.yaml")
	wants(t, index(), "", "")
	asks("index/acme/base.yaml unchanged")
	if logs != 1 {
		t.Errorf("the log was read %d times, want once: before the index was remembered", logs)
	}
	wants(t, p.take(t, s, "1.0.0"), "", "")
	asks("log/checkpoint", "index/acme/base.yaml unchanged")
	wants(t, p.take(t, s, "1.0.0"), "", "")
	asks("log/checkpoint unchanged", "index/acme/base.yaml unchanged")

	// Another version is another index and another checkpoint.
	s.publish("1.1.0", noon.Add(2*time.Hour))
	s.show()
	p.now = noon.Add(3 * time.Hour)
	wants(t, p.take(t, s, "1.1.0"), "", "")
	asks("log/checkpoint", "index/acme/base.yaml")

	// What is kept and no longer verified is asked for in any case.
	at := url + "/index/acme/base.yaml"
	shelf := p.keeper.(shelf)
	good := shelf[at]
	shelf[at] = [2]string{good[0], good[1] + "x"}
	wants(t, index(), "", "")
	asks("index/acme/base.yaml")
	if shelf[at] != good {
		t.Error("the good index isn't kept again")
	}
	list, err := p.client(s).KeptIndex(t.Context(), "acme/base")
	if err != nil || len(list.Entries) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := p.client(s).KeptIndex(t.Context(), "acme/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}

	// A registry that goes back says "unchanged" of an index older than one that was remembered.
	s.publish("1.2.0", noon.Add(4*time.Hour))
	s.show()
	p.now = noon.Add(5 * time.Hour)
	wants(t, index(), "", "")
	s.files["index/acme/base.yaml"] = []byte(good[1])
	shelf[at] = good
	wants(t, index(), fault.Rollback, "goes back")

	// What the log refuses is neither remembered nor kept.
	s.publish("1.3.0", noon.Add(6*time.Hour))
	s.show()
	before := shelf[at]
	refused := errors.New("two histories")
	_, err = p.client(s).Index(t.Context(), "acme/base", func() error { return refused })
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	if shelf[at] != before {
		t.Error("a refused index was kept")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.client(s).Index(cancelled, "acme/base", believed); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
