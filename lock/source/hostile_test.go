package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
)

var errStopped = errors.New("stopped")

func listOf(id, version string, digest cas.Digest) *manifest.FileList {
	return &manifest.FileList{Document: manifest.Document{ID: digest}, BundleID: id, Version: version}
}

// Indexes that must not be believed.
func TestHostileIndex(t *testing.T) {
	p := newPack(t, "acme/base", "2.1.4", nil, alice)
	good := index.Index{Label: "all", Counter: 1, Entries: []index.Entry{p.entry("base.rye")}}
	text := func(change func(*index.Index), signed func([]byte) []byte) []byte {
		x := good
		change(&x)
		body, _, err := index.Append(nil, &x)
		if err != nil {
			t.Fatal(err)
		}
		return signed(body)
	}
	none := func(*index.Index) {}
	fine := signed(t, good, alice)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"unsigned":      {text(none, func(b []byte) []byte { return b }), `"index:all" is unsigned`},
		"by a stranger": {signed(t, good, eve), `"index:all" is not signed by`},
		"by another":    {signed(t, good, bob), `"index:all" `},
		"renamed": {bytes.Replace(fine, []byte(`name: "all"`), []byte(`name: "bobs"`), 1),
			"does not match its signed digest"},
		"changed": {bytes.Replace(fine, []byte("size: "), []byte("size: 1"), 1),
			"does not match its signed digest"},
		"cut off": {fine[:len(fine)-1], "index: line"},
		"expired": {signed(t, index.Index{Label: "all", Counter: 1, Expires: noon}, alice),
			`"index:all" expired at 2026-11-20T12:00:00Z`},
		"above itself":   {bytes.Replace(fine, []byte("base.rye"), []byte("../x.rye"), 1), `path "../x.rye"`},
		"a bundle":       {manifest.Join(nil, p.body, p.list.Signatures), "expected `rye: \"index/2\"`"},
		"nothing":        {nil, "index: "},
		"what isn't one": {[]byte("404\n"), "index: line 1"},
		"too large":      {append(bytes.Clone(fine), make([]byte, index.MaxBytes)...), "index: document is larger"},
	} {
		w := newWorld(t)
		write(t, filepath.Join(w.dir, "list", "index.yaml"), c.b)
		s := w.sources("acme/base", project.Source{Index: true, Where: "list"})
		_, err := s.Versions(t.Context(), "acme/base")
		if err == nil || !strings.HasPrefix(err.Error(), `from "list": `) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if seen, err := w.options.Journal.Seen(); len(seen) > 0 || err != nil {
			t.Errorf("%s: it is remembered: %v, %v", name, seen, err)
		}
		if _, err := s.Bring(t.Context(), p.want(project.Source{Index: true, Where: "list"}), nil); err == nil {
			t.Errorf("%s: a bundle comes from it", name)
		}
		// That it isn't read counts for all that could be in it.
		if _, err := s.Versions(t.Context(), "acme/other"); err == nil {
			t.Errorf("%s: others aren't told", name)
		}
	}

	w := newWorld(t)
	w.put("/index.yaml", make([]byte, index.MaxBytes+1))
	_, err := w.sources("acme/base", w.at("/index.yaml", true)).Versions(t.Context(), "acme/base")
	if _, ok := errors.AsType[*web.LimitError](err); !ok {
		t.Errorf("too large a file on a server: %v", err)
	}
	w.options.Verify = bundle.VerifyOptions{}
	w.put("/index.yaml", fine)
	if _, err := w.sources("acme/base", w.at("/index.yaml", true)).Versions(t.Context(), "acme/base"); !errors.Is(err,
		bundle.ErrNoTrust) {
		t.Errorf("no key is trusted: %v", err)
	}
}

// A key that may sign an index may not for that reason sign a bundle.
func TestIndexTrustsNobody(t *testing.T) {
	w := newWorld(t)
	src := project.Source{Index: true, Where: "list"}
	for _, p := range []*pack{newPack(t, "acme/base", "2.1.4", nil, bob), newPack(t, "acme/base", "2.1.6", nil, eve)} {
		x := index.Index{Label: "bobs", Counter: 1, Entries: []index.Entry{p.entry("base.rye")}}
		w.options.Journal.Path += "x"
		write(t, filepath.Join(w.dir, "list", "index.yaml"), signed(t, x, bob))
		write(t, filepath.Join(w.dir, "list", "base.rye"), p.archive())
		s := w.sources("acme/base", src)
		same(t, "listed", versions(t, s, "acme/base"), []string{p.list.Version})
		if _, err := w.bring(s, "acme/base", p.list.Version); err == nil {
			t.Errorf("%s came", p.list.Version)
		}
		w.empty(p.list.Version, p)
	}
}

// Archives that aren't what the index says.
func TestHostileArchive(t *testing.T) {
	p := newPack(t, "acme/base", "2.1.4", []string{"acme/log ^1"}, alice)
	good := p.archive()
	entry := p.entry("base.rye")
	changed := func(change func(*index.Entry)) index.Entry {
		e := entry
		change(&e)
		return e
	}
	requires := func(texts ...string) (all []index.Require) {
		for _, text := range texts {
			id, versions, _ := strings.Cut(text, " ")
			r, err := index.NewRequire(id, versions)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	other := newPack(t, "acme/other", "2.1.4", nil, alice)
	later := newPack(t, "acme/base", "2.1.5", nil, alice)
	sized := func(b []byte) index.Entry { return changed(func(e *index.Entry) { e.Size = int64(len(b)) }) }
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		entry   index.Entry
		archive []byte
		want    string
	}{
		"another bundle": {sized(other.archive()), other.archive(),
			"not the expected bundle: expected id acme/base, found acme/other"},
		"another version": {sized(later.archive()), later.archive(),
			"not the expected bundle: expected version 2.1.4, found 2.1.5"},
		"another manifest": {changed(func(e *index.Entry) {
			e.Manifest = later.list.ID
		}), good, "not the expected bundle: expected manifest " + later.list.ID.String() + ", found " +
			p.list.ID.String()},
		"requirements left out": {changed(func(e *index.Entry) {
			e.Requires = nil
		}), good, `not the expected bundle: expected requires [], found [acme/log "^1"]`},
		"another requirement": {changed(func(e *index.Entry) {
			e.Requires = requires("acme/log ^2")
		}), good, `expected requires [acme/log "^2"], found [acme/log "^1"]`},
		"one requirement too many": {changed(func(e *index.Entry) {
			e.Requires = requires("acme/log ^1", "acme/mine *")
		}), good, `expected requires [acme/log "^1", acme/mine "*"]`},
		"longer": {changed(func(e *index.Entry) {
			e.Size--
		}), good, fmt.Sprintf("larger than the %d bytes", len(good)-1)},
		"shorter": {changed(func(e *index.Entry) {
			e.Size++
		}), good, fmt.Sprintf("the archive has %d bytes, but the index says %d", len(good), len(good)+1)},
		"cut off":        {sized(good), good[:len(good)/2], fmt.Sprintf("the archive has %d bytes", len(good)/2)},
		"more behind it": {sized(append(bytes.Clone(good), 0)), append(bytes.Clone(good), 0), "byte"},
		"a flipped bit":  {entry, flipped, ""},
		"nothing":        {entry, nil, "the archive has 0 bytes"},
		"of a stranger":  {sized(p.by(eve)), p.by(eve), `"bundle:acme/base@2.1.4" is not signed by`},
		"not there":      {changed(func(e *index.Entry) { e.Archive = "none.rye" }), good, "none.rye"},
	} {
		for _, remote := range []bool{false, true} {
			w := newWorld(t)
			x := signed(t, index.Index{Label: "all", Counter: 1, Entries: []index.Entry{c.entry}}, alice)
			src := project.Source{Index: true, Where: "list"}
			if remote {
				src = w.at("/index.yaml", true)
				w.put("/index.yaml", x)
				w.put("/base.rye", c.archive)
			} else {
				write(t, filepath.Join(w.dir, "list", "index.yaml"), x)
				write(t, filepath.Join(w.dir, "list", "base.rye"), c.archive)
			}
			_, err := w.bring(w.sources("acme/base", src), "acme/base", "2.1.4")
			want := c.want
			if remote && name == "longer" {
				want = "bytes"
			} else if remote && name == "not there" {
				want = "404"
			}
			if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf(`"acme/base" 2.1.4 from %q: `, src.Where)) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s (%t): %v, want %s", name, remote, err, want)
			}
			w.empty(name, p)
			if seen, err := w.options.Journal.Seen(); len(seen) != 1 || err != nil {
				t.Errorf("%s: remembered is %v, %v", name, seen, err)
			}
		}
	}
}

// by is the archive of the same bundle, signed by another key.
func (p *pack) by(k key.Private) []byte {
	p.t.Helper()
	l := *p.list
	l.Signatures = nil
	if err := l.Sign(k, noon); err != nil {
		p.t.Fatal(err)
	}
	var b bytes.Buffer
	if err := archive.Write(p.t.Context(), &b, p.body, l.Signatures, &p.store); err != nil {
		p.t.Fatal(err)
	}
	return b.Bytes()
}

// A connection that breaks, and a person who does, leave nothing behind, and it can be tried again.
func TestBrokenOff(t *testing.T) {
	w := newWorld(t)
	p := newPack(t, "acme/base", "2.1.4", nil, alice)
	b := p.archive()
	src := w.at("/base.rye", false)
	bring := func(ctx context.Context) error {
		_, err := w.sources("acme/base", src).Bring(ctx, p.want(src), library)
		return err
	}
	for _, sent := range []int{1, 300, len(b) / 2, len(b) - 1} {
		w.answer("/base.rye", slowly(b, sent, func() { panic(http.ErrAbortHandler) }))
		if err := bring(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d: %v", sent, err)
		}
		w.empty("cut", p)

		ctx, cancel := context.WithCancelCause(t.Context())
		over := make(chan struct{})
		w.answer("/base.rye", slowly(b, sent, func() { cancel(errStopped); <-over }))
		if err := bring(ctx); !errors.Is(err, errStopped) {
			t.Errorf("stopped after %d: %v", sent, err)
		}
		close(over)
		w.empty("stopped", p)
	}
	w.answer("/base.rye", nil)
	w.put("/base.rye", b)
	if err := bring(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.whole(p)
}

// Directories that aren't what their manifest says, and what is neither a directory nor a file.
func TestHostileDirectory(t *testing.T) {
	p := newPack(t, "acme/deploy", "1.4.2", nil, alice)
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
		early  bool // found out before any file is read
	}{
		"a changed file": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "README.md"), []byte("x"), 0o644)
		}, `invalid bundle: "README.md": size`, false},
		"a missing file": {func(dir string) error {
			return os.Remove(filepath.Join(dir, "README.md"))
		}, `invalid bundle: "README.md": missing`, false},
		"a link": {func(dir string) error {
			return relink(filepath.Join(dir, "README.md"))
		}, `invalid bundle: "README.md": type`, false},
		"no evidence": {func(dir string) error {
			return os.Remove(filepath.Join(dir, ".ai/bundles/acme/deploy/sbom.json"))
		}, "sbom.json", false},
		"no manifest": {func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, ".ai/bundles"))
		}, "does not contain the bundle", true},
		"a broken manifest": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".ai/bundles/acme/deploy/manifest.yaml"), []byte("x"), 0o644)
		}, "manifest: line 1", true},
		"another manifest": {func(dir string) error {
			return rewrite(t, dir, newPack(t, "acme/other", "1.4.2", nil, alice))
		}, "expected id acme/deploy, found acme/other", true},
		"a stranger's": {func(dir string) error {
			return rewrite(t, dir, newPack(t, "acme/deploy", "1.4.2", []string{"a *"}, eve))
		}, "is not signed by", true},
		"a senseless range": {func(dir string) error {
			return rewrite(t, dir, newPack(t, "acme/deploy", "1.4.2", []string{"a nonsense"}, alice))
		}, `it requires "a": version range "nonsense"`, true},
		"an impossible one": {func(dir string) error {
			return rewrite(t, dir, newPack(t, "acme/deploy", "1.4.2", []string{"a <1 >1"}, alice))
		}, `"<1 >1" allows no version`, true},
		"a link for a place": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"x"), os.Mkdir(dir+"y", 0o755), os.Symlink("/", dir))
		}, "link", true},
	} {
		w := newWorld(t)
		dir := filepath.Join(w.dir, "deploy")
		p.dir(dir)
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		src := project.Source{Where: "deploy"}
		s := w.sources("acme/deploy", src)
		_, err := s.Versions(t.Context(), "acme/deploy")
		if (err != nil) != c.early || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if c.early && strings.HasPrefix(c.want, "it requires") {
			continue
		}
		if _, err = s.Bring(t.Context(), p.want(src), library); err == nil || !c.early &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, ok := errors.AsType[*install.RefusedError](err); ok == c.early {
			t.Errorf("%s: %T", name, err)
		}
		w.empty(name, p)
	}
}

func relink(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/hosts", path)) }

// rewrite puts another bundle's manifest where that of acme/deploy is.
func rewrite(t *testing.T, dir string, p *pack) error {
	t.Helper()
	return os.WriteFile(filepath.Join(dir, ".ai/bundles/acme/deploy/manifest.yaml"),
		manifest.Join(nil, p.body, p.list.Signatures), 0o644)
}

func TestExactly(t *testing.T) {
	for _, text := range []string{"", "a", "abc", strings.Repeat("x", 1000)} {
		for _, size := range []int64{0, 1, 3, 999, 1000, 1001} {
			for name, r := range map[string]io.Reader{"plain": strings.NewReader(text),
				"bytes":             iotest.OneByteReader(strings.NewReader(text)),
				"data with its end": iotest.DataErrReader(strings.NewReader(text))} {
				got, err := io.ReadAll(&exactly{r: r, left: size, size: size})
				if fits := int64(len(text)) == size; fits != (err == nil) || fits && string(got) != text ||
					int64(len(got)) > size {
					t.Errorf("%s: %d bytes for %d: %d, %v", name, len(text), size, len(got), err)
				}
				if err != nil && (fault.Of(err).Details["expected"] != size ||
					fault.Of(err).Details["found"] == size) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
