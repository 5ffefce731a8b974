package relock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/relock"
)

// A bench has the programs of a machine.
type bench struct {
	found   []file.Program
	missing []error
	err     error
	asked   []model.Ref
}

func (b *bench) Platform() string { return "linux/amd64" }

func (b *bench) Programs(_ context.Context, v *ai.View, tools []model.Ref) ([]file.Program, []error, error) {
	b.asked = tools
	return b.found, b.missing, b.err
}

func program(name, version, bytes string) file.Program {
	return file.Program{Name: name, Version: version, Digest: cas.Sum([]byte(bytes))}
}

func on(platform string, p file.Program) file.Program {
	p.Platform = platform
	return p
}

// TestToolchain pins the programs of this machine, and leaves alone those of others.
func TestToolchain(t *testing.T) {
	w := shop(t)
	w.requires[base] = w.requires[base][:1]
	w.build()
	settled, _ := w.made()
	for i := range settled.Bundles {
		settled.Bundles[i].Source = shelf
	}
	for i := range settled.Requires {
		settled.Requires[i].Source = shelf
	}
	digits := func(bytes string) string { return cas.Sum([]byte(bytes)).String()[len("blake3:"):][:12] }
	awk, bash := on("plan9/mips", program("awk", "1", "awk")), on("linux/amd64", program("bash", "5.2", "old"))
	gone := fmt.Errorf("node: %w", fs.ErrNotExist)
	for name, c := range map[string]struct {
		toolchain relock.Toolchain
		old       []file.Program
		want      string
	}{
		"record keeps":      {nil, []file.Program{awk, bash}, "awk plan9/mips 1 awk, bash linux/amd64 5.2 old"},
		"record makes none": {nil, nil, ""},
		"the first": {&bench{found: []file.Program{program("bash", "5.2", "new"),
			program("bash", "5.2", "new")}}, nil, "bash linux/amd64 5.2 new"},
		"replaced": {&bench{found: []file.Program{program("bash", "5.3", "new")}},
			[]file.Program{awk, bash}, "awk plan9/mips 1 awk, bash linux/amd64 5.3 new"},
		"no longer used": {&bench{}, []file.Program{awk, bash}, "awk plan9/mips 1 awk"},
		"not on this machine": {&bench{missing: []error{gone}}, []file.Program{awk, bash},
			"awk plan9/mips 1 awk, bash linux/amd64 5.2 old"},
		"some not here": {&bench{missing: []error{gone}, found: []file.Program{program("bash", "5.2", "new")}},
			[]file.Program{bash}, "bash linux/amd64 5.2 new"},
		"one says a version": {&bench{found: []file.Program{program("sh", lock.NoVersion, "new"),
			program("sh", "5.2", "new")}}, nil, "sh linux/amd64 5.2 new"},
		"the other way round": {&bench{found: []file.Program{program("sh", "5.2", "new"),
			program("sh", lock.NoVersion, "new")}}, nil, "sh linux/amd64 5.2 new"},
		"two of one name": {&bench{found: []file.Program{program("py", "3.12", "a"), program("py", "3.13", "b")}},
			[]file.Program{on("linux/amd64", program("py", "3.11", "c"))},
			"py:" + digits("a") + " linux/amd64 3.12 a, py:" + digits("b") + " linux/amd64 3.13 b"},
		"two, some not here": {&bench{missing: []error{gone}, found: []file.Program{program("py", "3.12", "a")}},
			[]file.Program{on("linux/amd64", program("py:0123", "3.11", "c"))}, "py linux/amd64 3.12 a"},
		"one of two stays": {&bench{found: []file.Program{program("py", "3.13", "b")}},
			[]file.Program{on("linux/amd64", program("py:"+digits("a"), "3.12", "a"))}, "py linux/amd64 3.13 b"},
	} {
		r := w.request(nil)
		old := *settled
		old.Toolchain = c.old
		r.Old, r.Toolchain = &old, c.toolchain
		made, err := relock.Make(t.Context(), r)
		if err != nil {
			t.Errorf("%s: %v", name, all(err))
			continue
		}
		var got []string
		for _, p := range made.Lock.Toolchain {
			for _, bytes := range []string{"awk", "old", "new", "a", "b", "c"} {
				if p.Digest == cas.Sum([]byte(bytes)) {
					got = append(got, strings.Join([]string{p.Name, p.Platform, p.Version, bytes}, " "))
				}
			}
		}
		want := strings.Split(c.want, ", ")
		slices.Sort(want) // two of one name are sorted by their digests
		slices.Sort(got)
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %q", name, got)
		}
		if b, ok := c.toolchain.(*bench); ok {
			if len(b.asked) == 0 || slices.ContainsFunc(b.asked, func(r model.Ref) bool {
				return r.Kind != "tool"
			}) || len(made.Unfound) != len(b.missing) {
				t.Errorf("%s: asked for %v, not found: %v", name, b.asked, made.Unfound)
			}
		}
	}
	r := w.request(nil)
	r.Old, r.Toolchain = settled, &bench{err: errors.New("broken off")}
	if _, err := relock.Make(t.Context(), r); err == nil || err.Error() != "broken off" {
		t.Errorf("broken off: %v", err)
	}
	r.Toolchain = &bench{found: []file.Program{program("two words", "1", "a")}}
	if _, err := relock.Make(t.Context(), r); err == nil {
		t.Error("two words are a name")
	}
}

// TestProgram asks a set about programs.
func TestProgram(t *testing.T) {
	w := shop(t)
	w.build()
	l, _ := w.made()
	py := func(beginning string) file.Program {
		return on("linux/amd64", program("py:"+beginning, "3", beginning))
	}
	l.Toolchain = []file.Program{on("linux/amd64", program("bash", "5.2", "bash")),
		on("linux/arm64", program("zsh", "5", "zsh")), py("a"), py("b")}
	l, b := w.written(l)
	s := w.setOf(l, cas.Sum(b))
	for _, c := range []struct{ name, platform, bytes, want string }{
		{"bash", "linux/amd64", "bash", "bash"}, {"bash", "linux/amd64", "other", "bash"},
		{"bash", "linux/arm64", "bash", ""}, {"zsh", "linux/amd64", "zsh", ""},
		{"py", "linux/amd64", "a", "py:a"}, {"py", "linux/amd64", "b", "py:b"}, {"py", "linux/amd64", "c", "py:a"},
		{"none", "linux/amd64", "bash", ""},
	} {
		got := ""
		if p := s.Program(c.name, c.platform, cas.Sum([]byte(c.bytes))); p != nil {
			got = p.Name
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	for path, want := range map[string]string{"/usr/bin/python3": "python3", "/x/node.exe": "node", "bash": "bash"} {
		if got := lock.ProgramName(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}
