package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	binhex "encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/project"
)

// A repo answers as git does from a repository of these commits. Package git is tested with git itself.
type repo struct {
	t       *testing.T
	objects map[string]string // "KIND SIZE\x00BODY" by their names
	branch  map[string]string
	fetched int
	asked   int // for branches and tags
}

func (r *repo) add(kind, body string) string {
	text := fmt.Sprintf("%s %d\x00%s", kind, len(body), body)
	sum := sha1.Sum([]byte(text))
	name := binhex.EncodeToString(sum[:])
	r.objects[name] = text
	return name
}

// commit makes a commit of a directory.
func (r *repo) commit(dir string) string { return r.add("commit", "tree "+r.tree(dir)+"\n") }

func (r *repo) tree(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	body := ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		mode, name := "40000", ""
		switch info, err := e.Info(); {
		case err != nil:
			r.t.Fatal(err)
		case e.IsDir():
			name = r.tree(path)
		case info.Mode()&fs.ModeSymlink != 0:
			mode, name = "120000", r.add("blob", "x")
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				r.t.Fatal(err)
			}
			if mode, name = "100644", r.add("blob", string(b)); info.Mode()&0o100 != 0 {
				mode = "100755"
			}
		}
		raw, _ := binhex.DecodeString(name)
		body += mode + " " + e.Name() + "\x00" + string(raw)
	}
	return r.add("tree", body)
}

func (r *repo) run(_ context.Context, c git.Command) (int, error) {
	args := c.Args
	for args[0] == "-c" {
		args = args[2:]
	}
	last := args[len(args)-1]
	switch args[0] {
	case "version":
		io.WriteString(c.Stdout, "git version 2.39.5\n")
	case "ls-remote":
		r.asked++
		for name, id := range r.branch {
			fmt.Fprintf(c.Stdout, "%s\t%s\n", id, name)
		}
	case "init":
		return 0, os.Mkdir(last, 0o700)
	case "fetch":
		r.fetched++
		if r.objects[last] == "" {
			fmt.Fprintln(c.Stderr, "fatal: not our ref")
			return 128, nil
		}
	case "cat-file":
		for lines := bufio.NewScanner(c.Stdin); lines.Scan(); {
			head, body, _ := strings.Cut(r.objects[lines.Text()], "\x00")
			if _, err := fmt.Fprintf(c.Stdout, "%s %s\n%s\n", lines.Text(), head, body); err != nil {
				break
			}
		}
	}
	return 0, nil
}

func gitWorld(t *testing.T) (*world, *repo) {
	w, r := newWorld(t), &repo{t: t, objects: map[string]string{}, branch: map[string]string{}}
	w.options.Git = git.New(git.Options{Run: r.run, Dir: filepath.Join(t.TempDir(), "git"),
		Reach: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }})
	return w, r
}

const repository = "https://git.acme.example/base.git"

func gitSource(t *testing.T, more string) project.Source {
	t.Helper()
	s, err := project.ParseSource("git+"+repository+more, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRepository brings a bundle from a branch, which then is a commit, and later without the network.
func TestRepository(t *testing.T) {
	for _, below := range []string{"", "?dir=packages/base"} {
		w, r := gitWorld(t)
		p := newPack(t, "acme/base", "2.1.4", []string{"acme/util ^1.0"}, alice)
		top := t.TempDir()
		p.dir(filepath.Join(top, strings.TrimPrefix(below, "?dir=")))
		write(t, filepath.Join(top, "other", "file"), []byte("isn't read"))
		id := r.commit(top)
		r.branch["refs/heads/main"] = id
		from := gitSource(t, below+"@main")
		s := w.sources("acme/base", from)
		found, err := s.Versions(t.Context(), "acme/base")
		if err != nil || len(found) != 1 || found[0].Version != "2.1.4" || len(found[0].Requires) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		digest, at, err := s.Manifest(t.Context(), "acme/base", "2.1.4")
		if pinned := gitSource(t, below+"@"+id); err != nil || digest != p.list.ID || at != pinned {
			t.Fatalf("%v, %v, %v", digest, at, err)
		}
		b, err := s.Bring(t.Context(), p.want(at), library)
		if err != nil || b.ID != p.list.ID {
			t.Fatal(err)
		}
		w.whole(p)
		if r.fetched != 1 || r.asked != 1 {
			t.Errorf("fetched %d times, asked %d times", r.fetched, r.asked)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		// What is here isn't fetched again, nor is it offline.
		if _, err := w.sources("acme/base", from).Bring(t.Context(), p.want(at), library); err != nil ||
			r.fetched != 1 {
			t.Errorf("fetched %d times: %v", r.fetched, err)
		}
		w.options.Git = nil
		s = w.sources("acme/base", at)
		if found, err := s.Versions(t.Context(), "acme/base"); err != nil || len(found) != 1 {
			t.Errorf("offline: %v, %v", found, err)
		}
		if needs, err := s.Requires(t.Context(), p.want(at)); err != nil || len(needs) != 1 {
			t.Errorf("offline: %v, %v", needs, err)
		}
		_, err = w.sources("acme/base", from).Versions(t.Context(), "acme/base")
		if off, ok := errors.AsType[*OfflineError](err); !ok || off.Address != from.Where || off.ID != "acme/base" {
			t.Errorf("a branch offline: %v", err)
		}
		other := p.want(gitSource(t, below+"@"+strings.Repeat("a", 40)))
		other.Manifest = cas.Sum([]byte("other"))
		_, err = s.Bring(t.Context(), other, library)
		if _, ok := errors.AsType[*OfflineError](err); !ok {
			t.Errorf("another commit offline: %v", err)
		}
	}
}

// TestHostileRepository wants nothing to be left of commits that differ from what was signed.
func TestHostileRepository(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string, p *pack)
		want   string
	}{
		"unsigned": {func(t *testing.T, dir string, p *pack) {
			p.list.Signatures = nil
			p.dir(dir)
		}, `"bundle:acme/base@2.1.4" is unsigned`},
		"another file": {func(t *testing.T, dir string, _ *pack) {
			write(t, filepath.Join(dir, "README.md"), []byte("# acme/base 2.1.5"))
		}, "README.md"},
		"a longer file": {func(t *testing.T, dir string, _ *pack) {
			write(t, filepath.Join(dir, "README.md"), bytes.Repeat([]byte("x"), 1000))
		}, `"README.md": more than`},
		"an executable": {func(t *testing.T, dir string, _ *pack) {
			os.Chmod(filepath.Join(dir, "README.md"), 0o755)
		}, "README.md"},
		"no file": {func(t *testing.T, dir string, _ *pack) {
			os.Remove(filepath.Join(dir, "data", "deep", "pad"))
		}, `the commit has no file "data/deep/pad"`},
		"no evidence": {func(t *testing.T, dir string, _ *pack) {
			os.Remove(filepath.Join(dir, ".ai/bundles/acme/base/sbom.json"))
		}, `sbom.json`},
		"no bundle": {func(t *testing.T, dir string, _ *pack) {
			os.RemoveAll(filepath.Join(dir, ".ai"))
		}, `manifest.yaml`},
		"a broken one": {func(t *testing.T, dir string, _ *pack) {
			write(t, filepath.Join(dir, ".ai/bundles/acme/base/manifest.yaml"), []byte("rye:"))
		}, `line 1`},
		"a link": {func(t *testing.T, dir string, _ *pack) {
			link(t, filepath.Join(dir, "README.md"))
		}, `"README.md" is a symbolic link`},
		"a linked folder": {func(t *testing.T, dir string, _ *pack) {
			link(t, filepath.Join(dir, "data"))
		}, `"data" is a symbolic link`},
		"a linked bundle": {func(t *testing.T, dir string, _ *pack) {
			link(t, filepath.Join(dir, ".ai"))
		}, `".ai" is a symbolic link`},
		"another id": {func(t *testing.T, dir string, _ *pack) {
			to := filepath.Join(dir, ".ai/bundles/acme/base")
			os.RemoveAll(to)
			newPack(t, "acme/evil", "2.1.4", nil, alice).dir(dir)
			if err := os.Rename(filepath.Join(dir, ".ai/bundles/acme/evil"), to); err != nil {
				t.Fatal(err)
			}
		}, "acme/evil"},
	} {
		w, r := gitWorld(t)
		p := newPack(t, "acme/base", "2.1.4", nil, alice)
		dir := t.TempDir()
		p.dir(dir)
		c.change(t, dir, p)
		at := gitSource(t, "@"+r.commit(dir))
		s := w.sources("acme/base", at)
		_, err := s.Bring(t.Context(), p.want(at), library)
		if err == nil || !strings.Contains(describe(err), c.want) {
			t.Errorf("%s: %s", name, describe(err))
		}
		w.empty(name, p)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	w, r := gitWorld(t)
	p := newPack(t, "acme/base", "2.1.4", nil, alice)
	dir := t.TempDir()
	p.dir(dir)
	id := r.commit(dir)
	r.branch["refs/heads/main"], r.branch["refs/tags/main"] = id, strings.Repeat("a", 40)
	for where, want := range map[string]string{"@none": "no branch or tag", "@main": "both a branch and a tag",
		"@" + strings.Repeat("b", 40): "not our ref", "?dir=none@" + id: "manifest.yaml"} {
		src := gitSource(t, where)
		s := w.sources("acme/base", src)
		_, err := s.Versions(t.Context(), "acme/base")
		if about, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), want) || about.Where == "" {
			t.Errorf("%s: %v", where, err)
		}
		if _, _, err := s.Manifest(t.Context(), "acme/base", "2.1.4"); err == nil {
			t.Errorf("%s has the bundle", where)
		}
	}
	at := gitSource(t, "@"+id)
	other := p.want(at)
	other.Manifest = cas.Sum([]byte("other"))
	_, err := w.sources("acme/base", at).Bring(t.Context(), other, library)
	if fault.Of(err).Details["reason"] != "other-bundle" {
		t.Errorf("another manifest: %v", err)
	}
	_, err = w.sources("acme/base", at).Bring(t.Context(),
		file.Bundle{ID: "acme/other", Version: "1.0.0", Manifest: other.Manifest, Source: at}, library)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another bundle: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.sources("acme/base", gitSource(t, "@main")).Versions(ctx, "acme/base"); !errors.Is(err,
		context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	w.empty("in the end", p)
}

// describe is an error, with what a refused bundle has in its report.
func describe(err error) string {
	if err == nil {
		return "no error"
	}
	text := err.Error()
	if refused, ok := errors.AsType[*install.RefusedError](err); ok {
		for _, p := range refused.Report.Failures {
			text += "\n" + p.Error()
		}
	}
	return text
}

func link(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.Symlink("/etc", path)); err != nil {
		t.Fatal(err)
	}
}

// TestWriteFile writes no file twice, and none through what is a file already.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	fill := func(f *os.File) (bool, error) { _, err := io.WriteString(f, "x"); return true, err }
	if err := writeFile(dir, "a/b", fill); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{"a/b", "a/b/c"} {
		if err := writeFile(dir, name, fill); err == nil {
			t.Errorf("%q is written over", name)
		}
	}
}
