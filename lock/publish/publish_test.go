package publish_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/publish"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A shop is a directory of archives that Alice publishes.
type shop struct {
	testing.TB
	o    publish.Options
	said []string // notes and warnings
}

func newShop(t testing.TB) *shop {
	dir := t.TempDir()
	s := &shop{TB: t}
	say := func(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) }
	s.o = publish.Options{Dir: dir, Shown: "dist", Name: "acme/bundles", Key: keytest.Alice(),
		Finder: &find.Finder{Dir: dir, Now: now, Keep: func(c io.Closer) { t.Cleanup(func() { c.Close() }) },
			Below: func(context.Context, string, []manifest.Require) ([]*ai.Space, []bundle.Need, error) {
				return []*ai.Space{find.LibrarySpace()}, nil, nil
			}},
		Verify:  bundle.VerifyOptions{Trust: admissiontest.Trust(t, now, admissiontest.ByAlice), TempDir: t.TempDir()},
		Journal: &rollback.Journal{Path: filepath.Join(t.TempDir(), "rollback")},
		Clock: func() time.Time {
			return now
		}, Counted: func(r io.Reader) io.Reader { return r }, Note: say, Warn: say}
	return s
}

// archive writes the archive of acme/a in some version, whose only file has a text, and returns the id of its
// manifest.
func (s *shop) archive(name, version, text string, k key.Private) cas.Digest {
	s.Helper()
	var store cas.Memory
	info, err := store.Put(s.Context(), cas.Blob, strings.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/a", Version: version},
		[]manifest.File{{Path: "README.md", Digest: info.Digest, Size: info.Size, Mode: cas.File}})
	if err == nil {
		err = l.Sign(k, now)
	}
	var b bytes.Buffer
	if err == nil {
		err = archive.Write(s.Context(), &b, body, l.Signatures, &store)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.write(name, b.Bytes())
	return l.ID
}

func (s *shop) write(name string, text []byte) {
	s.Helper()
	path := filepath.Join(s.o.Dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) remove(name string) {
	s.Helper()
	if err := os.Remove(filepath.Join(s.o.Dir, name)); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) publish() *publish.Result {
	s.Helper()
	r, err := publish.Publish(s.Context(), s.o)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// refused wants a code, and that the index stays as it is.
func (s *shop) refused(code fault.Code) *fault.Error {
	s.Helper()
	file := filepath.Join(s.o.Dir, index.File)
	before, _ := os.ReadFile(file)
	r, err := publish.Publish(s.Context(), s.o)
	if err == nil || fault.CodeOf(err) != code {
		s.Fatalf("%+v, %v; want %s", r, err, code)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
		s.Error("the index is another one")
	}
	return fault.Of(err)
}

// index reads what was published.
func (s *shop) index() *index.Index {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.o.Dir, index.File))
	if err != nil {
		s.Fatal(err)
	}
	x, err := index.Parse(text)
	if err != nil {
		s.Fatal(err)
	}
	return x
}

func TestPublish(t *testing.T) {
	s := newShop(t)
	one := s.archive("one.rye", "1.0.0", "hello", keytest.Alice())
	s.archive("old/two.tar.zst", "2.0.0", "hello", keytest.Alice())
	s.archive(".hidden/three.rye", "3.0.0", "hello", keytest.Alice())
	s.write(".four.rye", []byte("no archive"))
	s.write("notes.txt", []byte("no archive"))
	r := s.publish()
	if !slices.Equal(r.Added, []string{"acme/a@1.0.0", "acme/a@2.0.0"}) || r.Bundles != 1 || r.Versions != 2 ||
		r.Counter != 1 || !r.Changed || !r.Allowed {
		t.Errorf("%+v", r)
	}
	if e := s.index().Find("acme/a", "1.0.0"); e == nil || e.Manifest != one || e.Archive != "one.rye" {
		t.Errorf("%+v", e)
	}
	if r = s.publish(); r.Changed || r.Counter != 1 {
		t.Errorf("%+v", r)
	}
	s.remove("one.rye")
	if r = s.publish(); !slices.Equal(r.Removed, []string{"acme/a@1.0.0"}) || len(r.Added) > 0 || r.Counter != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*shop)
		code   fault.Code
	}{
		"expired":      {func(s *shop) { s.o.Expires = now }, fault.Validation},
		"no name":      {func(s *shop) { s.o.Name = "" }, fault.Validation},
		"no directory": {func(s *shop) { s.o.Dir = filepath.Join(s.o.Dir, "none") }, fault.Files},
		"a file":       {func(s *shop) { s.o.Dir = filepath.Join(s.o.Dir, "one.rye") }, fault.Validation},
		"not portable": {func(s *shop) {
			s.archive("aux.rye", "2.0.0", "hello", keytest.Alice())
		}, fault.Validation},
		"two of one version": {func(s *shop) {
			s.archive("two.rye", "1.0.0", "jello", keytest.Alice())
		}, fault.Ambiguous},
		"a stranger":   {func(s *shop) { s.archive("two.rye", "2.0.0", "hello", keytest.Eve()) }, fault.UntrustedKey},
		"another name": {func(s *shop) { s.publish(); s.o.Name = "acme/other" }, fault.Validation},
		"a stranger's index": {func(s *shop) {
			s.o.Key = keytest.Eve()
			s.publish()
			s.o.Key = keytest.Bob()
		}, fault.UntrustedKey},
		"a changed index": {func(s *shop) {
			s.publish()
			s.remove("one.rye")
			text, err := os.ReadFile(filepath.Join(s.o.Dir, index.File))
			if err != nil {
				s.Fatal(err)
			}
			s.write(index.File, bytes.Replace(text, []byte("counter: 1"), []byte("counter: 7"), 1))
		}, fault.Integrity},
		"a version that became another bundle": {func(s *shop) {
			s.publish()
			s.archive("one.rye", "1.0.0", "jello", keytest.Alice())
		}, fault.Rollback},
		"one that comes back as another bundle": {func(s *shop) {
			s.publish()
			s.remove("one.rye")
			s.publish()
			s.archive("one.rye", "1.0.0", "jello", keytest.Alice())
		}, fault.Rollback},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.archive("one.rye", "1.0.0", "hello", keytest.Alice())
			test.change(s)
			s.refused(test.code)
		})
	}
}

// All refused archives are named, and none is listed.
func TestBroken(t *testing.T) {
	s := newShop(t)
	s.archive("one.rye", "1.0.0", "hello", keytest.Alice())
	s.archive("two.rye", "2.0.0", "hello", keytest.Eve())
	s.archive("three.rye", "3.0.0", "hello", keytest.Eve())
	e := s.refused(fault.UntrustedKey)
	if e.Text != "2 of 3 archives refused, and nothing was written" || len(e.Why) < 2 {
		t.Errorf("%q, %q", e.Text, e.Why)
	}
	if _, err := os.Stat(filepath.Join(s.o.Dir, index.File)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// An index that has expired is continued, with a warning that it may not be used.
func TestExpired(t *testing.T) {
	s := newShop(t)
	s.archive("one.rye", "1.0.0", "hello", keytest.Alice())
	s.o.Expires = now.Add(time.Hour)
	if r := s.publish(); !r.Allowed {
		t.Errorf("%+v", r)
	}
	later := now.Add(2 * time.Hour)
	s.o.Expires, s.o.Clock = time.Time{}, func() time.Time { return later }
	s.o.Verify.Trust.Now = later
	s.archive("two.rye", "2.0.0", "hello", keytest.Alice())
	if r := s.publish(); r.Allowed || r.Counter != 2 || len(s.said) != 1 ||
		!s.index().Expires.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v, %q", r, s.said)
	}
}

// Entries whose archives are elsewhere stay, unless the directory has the version itself.
func TestRemote(t *testing.T) {
	s := newShop(t)
	one := s.archive("one.rye", "1.0.0", "hello", keytest.Alice())
	s.publish()
	x := s.index()
	far := index.Entry{ID: "acme/far", Version: "1.0.0", Manifest: cas.Sum([]byte("far")),
		Archive: "https://example.com/far.rye", Size: 9}
	here := x.Entries[0]
	here.Archive = "https://example.com/one.rye"
	body, doc, err := index.Append(nil, &index.Index{Label: x.Label, Counter: 2, Entries: []index.Entry{here, far}})
	if err == nil {
		err = doc.Sign(keytest.Alice(), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.write(index.File, manifest.Join(nil, body, doc.Signatures))
	s.publish()
	x = s.index()
	if e := x.Find("acme/far", "1.0.0"); e == nil || e.Archive != far.Archive {
		t.Errorf("%+v", e)
	}
	if e := x.Find("acme/a", "1.0.0"); e == nil || e.Manifest != one || e.Archive != "one.rye" || len(x.Entries) != 2 {
		t.Errorf("%+v", x.Entries)
	}
}

// Nothing is published if what was published before is unreadable.
func TestNoMemory(t *testing.T) {
	s := newShop(t)
	s.archive("one.rye", "1.0.0", "hello", keytest.Alice())
	if err := os.WriteFile(s.o.Journal.Path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := publish.Publish(t.Context(), s.o); err == nil {
		t.Error("published")
	}
	if _, err := os.Stat(filepath.Join(s.o.Dir, index.File)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
