package relock_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/file"
)

// full is a world with everything that a lock can say.
func full(t testing.TB) *world {
	w := shop(t)
	w.std = small(t)
	w.files["user"] = files{"knowledge/mine/me.md": note("mine/me"), "tools/mine/far/far.py": pyTool("mine/far/far"),
		"tools/mine/far/__init__.py": ""}
	w.files["project"]["tools/rye/core/extractors/prompt_extractor.yaml"] = prompt
	w.files["project"]["prompts/acme/hi.txt"] = "# Hi\n"
	w.policy = "\noverride:\n  - \"**\"\n"
	w.roots = append(w.roots, "knowledge:mine/me", "tool:mine/far/far", "prompt:acme/hi", "knowledge:acme/idle")
	return w.build()
}

// small is a library that is read quickly, with a runtime that brings a file along.
func small(t testing.TB) *ai.Space {
	t.Helper()
	library := fstest.MapFS{}
	for name, text := range map[string]string{
		"tools/rye/core/primitives/subprocess.yaml":  tool("rye/core/primitives/subprocess", "null"),
		"tools/rye/core/primitives/http_client.yaml": tool(http, "null"),
		"tools/rye/core/runtimes/bash_runtime.yaml":  tool(bash, "rye/core/primitives/subprocess"),
		"tools/rye/core/runtimes/python_script_runtime.yaml": tool(python, "rye/core/primitives/subprocess",
			"anchor: {enabled: true, mode: auto, markers_any: [__init__.py], root: tool_dir, lib: lib/python}"),
		"tools/rye/core/runtimes/lib/python/_launch.py": "x = 1\n",
	} {
		library[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return &ai.Space{Label: file.FromStd, FS: library, Builtin: true}
}

func (w *world) full() (*file.Lock, []byte) {
	l, _ := w.made()
	l.Toolchain = []file.Program{{Name: "python", Platform: "linux/amd64", Version: "3.13.1",
		Digest: cas.Sum([]byte("a"))}, {Name: "python", Platform: "linux/arm64", Version: "3.13.1",
		Digest: cas.Sum([]byte("b"))}}
	l.Artifacts = []file.Artifact{{Name: "pypi:requests", Version: "2.32.3", Digest: w.put(cas.Blob, []byte("c")),
		Source: "sha256:" + strings.Repeat("07", 32), Size: 1}}
	l.Definitions = append(l.Definitions, file.Definition{Name: "mcp:files/read", Digest: cas.Sum([]byte("d"))})
	return w.written(l)
}

// An entry is one line of a lock: a section, a name and fields as they are written.
type entry struct {
	line   int
	name   string
	fields []string // "name: value"
}

var (
	entryLine = regexp.MustCompile(`^  "([^"]*)": \{(.*)\}$`)
	oneField  = regexp.MustCompile(`([a-z]+): ("[^"]*"|\[[^\]]*\]|\d+)`)
)

func entries(lines []string) (sections map[string][]entry) {
	sections = map[string][]entry{}
	section := ""
	for i, line := range lines {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			sections[section] = append(sections[section], entry{i, m[1], oneField.FindAllString(m[2], -1)})
		} else {
			section = line
		}
	}
	return sections
}

func (e entry) text(name string, fields []string) string {
	return fmt.Sprintf("  %q: {%s}", name, strings.Join(fields, ", "))
}

// others are other values that a field could have: near ones, worse ones, and those of other entries.
func others(value string, section []entry, name string, objects []string) (all []string) {
	switch {
	case strings.HasPrefix(value, `"blake3:`):
		flip := []byte(value)
		flip[len(`"blake3:`)] ^= 1
		all = append(all, string(flip), `"blake3:`+strings.Repeat("0", 64)+`"`, value[:len(value)-2]+`"`)
		all = append(all, objects...)
	case strings.HasPrefix(value, "["):
		all = append(all, "[]", `["`+eve.Public().Fingerprint().String()+`"]`,
			`["`+bob.Public().Fingerprint().String()+`"]`,
			value[:len(value)-1]+`, "`+strings.Repeat("f", 64)+`"]`)
	case strings.HasPrefix(value, `"`):
		all = append(all, `""`, value[:len(value)-1]+`x"`, `"*"`, `"v1"`, `"exec"`, `"file"`, `"project"`, `"user"`,
			`"system:acme/base"`, `"system:acme/util"`, `"system:rye/std"`,
			`"9.9.9"`, `"../elsewhere"`, `"tools/acme/shop/idle.py"`)
	default:
		all = append(all, "0", "1", value+"0", "-1", "99999999999999999999")
	}
	for i, e := range section {
		for _, f := range e.fields {
			if n, v, _ := strings.Cut(f, ": "); n == name && i%4 == 0 {
				all = append(all, v)
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(v string) bool { return v == value })
}

// mutants calls with each edit of one field, name or entry.
func mutants(lock string, objects []string, try func(what, text string)) {
	lines := strings.Split(lock, "\n")
	with := func(i int, text ...string) string {
		return strings.Join(slices.Concat(lines[:i], text, lines[i+1:]), "\n")
	}
	sections := entries(lines)
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		list := sections[section]
		for i, e := range list {
			at := section + " " + e.name
			try(at+": dropped", with(e.line))
			try(at+": twice", with(e.line, lines[e.line], lines[e.line]))
			try(at+": another name", with(e.line, e.text(e.name+"x", e.fields)))
			if i > 0 {
				swapped := slices.Clone(lines)
				swapped[e.line], swapped[list[i-1].line] = swapped[list[i-1].line], swapped[e.line]
				try(at+": swapped", strings.Join(swapped, "\n"))
			}
			for _, o := range list {
				if o.line != e.line {
					try(at+": what is said of "+o.name, with(e.line, e.text(e.name, o.fields)))
					try(at+": as "+o.name, with(e.line, e.text(o.name, e.fields)))
				}
			}
			for j, f := range e.fields {
				name, value, _ := strings.Cut(f, ": ")
				try(at+": without "+name, with(e.line, e.text(e.name, slices.Concat(e.fields[:j], e.fields[j+1:]))))
				for _, v := range others(value, list, name, objects) {
					changed := slices.Clone(e.fields)
					changed[j] = name + ": " + v
					try(at+": "+name+" "+v, with(e.line, e.text(e.name, changed)))
				}
			}
			for _, more := range []string{`tree: ` + objects[0], `files: ` + objects[0], `index: "../x"`} {
				name, _, _ := strings.Cut(more, ":")
				if !strings.Contains(lines[e.line], name+": ") {
					for j := range len(e.fields) + 1 {
						try(at+": with "+more, with(e.line,
							e.text(e.name, slices.Insert(slices.Clone(e.fields), j, more))))
					}
				}
			}
		}
	}
	for i := 1; i < len(lines)-1; i++ {
		try(fmt.Sprintf("without line %d", i+1), with(i))
		try(fmt.Sprintf("cut off before line %d", i+1), strings.Join(lines[:i], "\n")+"\n")
	}
}

// TestMutants: every edit of one thing in a lock is refused when it is read or made a set, or where what it speaks of
// is used; or Drift or Weakening reports it; or all that was pinned is what it was.
func TestMutants(t *testing.T) {
	w := full(t)
	l, text := w.full()
	original := w.use(w.setOf(l, cas.Sum(text)))
	was := map[model.Ref]string{}
	for _, p := range l.Pins {
		state, err := original.state(t.Context(), p.Ref)
		if err != nil {
			t.Fatalf("%s: %v", p.Ref, err)
		}
		was[p.Ref] = state
	}
	// Bytes that an edit could bring in: other files, versions of the past, trees and documents.
	var objects []string
	for _, o := range w.objects(original.Set) {
		objects = append(objects, fmt.Sprintf("%q", o))
	}
	for _, o := range w.past() {
		objects = append(objects, fmt.Sprintf("%q", o))
	}
	counts, every, n := map[string]int{}, 1, 0
	if testing.Short() {
		every = 8 // the rest takes the same ways
	}
	mutants(string(text), objects, func(what, mutant string) {
		if n++; mutant == string(text) || n%every != 0 {
			return
		}
		how, err := w.judge(t.Context(), mutant, original, was)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		counts[how]++
	})
	t.Log(counts)
	for how, least := range map[string]int{"parse": 1000, "set": 400, "use": 400, "told": 3, "harmless": 100} {
		if least /= every; counts[how] < least {
			t.Errorf("%d are %q: expected at least %d", counts[how], how, least)
		}
	}
}

// objects are the digests of everything that a set needs.
func (w *world) objects(s *lock.Set) (all []cas.Digest) {
	w.Helper()
	list, err := s.Objects(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for i := range list {
		if i%9 == 0 {
			all = append(all, list[i].Digest)
		}
	}
	return all
}

// affected are the pins that two locks don't have in common, and those of tools with other files; for some locks all.
func (w *world) affected(text string, a, b *file.Lock) map[model.Ref]bool {
	refs := map[model.Ref]bool{}
	everything := cas.Sum([]byte(text))[0]%16 == 0
	for _, lists := range [][2]*file.Lock{{a, b}, {b, a}} {
		for i := range lists[0].Pins {
			p := &lists[0].Pins[i]
			o := lists[1].Pin(p.Ref)
			refs[p.Ref] = refs[p.Ref] || everything || !p.Tree.IsZero() || o == nil || !reflect.DeepEqual(p, o)
		}
	}
	maps.DeleteFunc(refs, func(_ model.Ref, is bool) bool { return !is })
	return refs
}

// past are digests of what some items of the project once were: as long as they are now, and signed by Alice.
func (w *world) past() (all []cas.Digest) {
	w.Helper()
	old := shop(w)
	for name, words := range map[string][2]string{
		"tools/acme/hello.sh": {"echo hello", "echo howdy"}, "knowledge/acme/note.md": {"Text.", "Tale."},
		"directives/acme/deploy.md": {"Do it.", "Go on."}, "config/net.yaml": {"a: one", "a: two"},
	} {
		text := old.files["project"][name]
		if old.files["project"][name] = strings.Replace(text, words[0], words[1],
			1); old.files["project"][name] == text {
			w.Fatal(name)
		}
		defer func() { all = append(all, w.put(cas.Blob, old.project()[name].Data)) }()
	}
	old.build()
	return all
}

// judge says what becomes of a mutant.
func (w *world) judge(ctx context.Context, text string, original *use, was map[model.Ref]string) (how string,
	err error) {
	l, err := file.Parse([]byte(text))
	if err != nil {
		return "parse", nil
	}
	s, err := lock.NewSet(ctx, l, cas.Sum([]byte(text)), w.options())
	if err != nil {
		return "set", nil
	}
	trust := w.trust()
	v, err := s.View(ctx, trust, trust.Root.Policy.MayOverride)
	if err != nil {
		return "use", nil
	}
	u := &use{s, v, s.Resolver(v), ai.NewAdmitter(s.Resolver(v), s.Examiner(trust))}
	how = "harmless"
	if u.CheckConfig(ctx, u.view, u.admit) != nil {
		how = "use"
	}
	var changed []model.Ref
	for ref := range w.affected(text, original.Lock(), l) {
		state, err := u.state(ctx, ref)
		if err != nil {
			how = "use"
		} else if state != was[ref] {
			changed = append(changed, ref)
		}
	}
	if len(changed) == 0 {
		return how, nil
	}
	weaker, err := lock.Weakening(ctx, original.Side, s.Side)
	if err != nil {
		return "", err
	}
	working := w.view()
	found, err := drift.Find(ctx, s, drift.Options{Pinned: v, Working: working, Admit: ai.NewAdmitter(working, trust)})
	if err != nil {
		return "", err
	}
	for _, ref := range changed {
		if !slices.ContainsFunc(weaker, func(x lock.Weakness) bool { return x.Name == ref.String() }) &&
			!slices.ContainsFunc(found, func(x *drift.Difference) bool { return x.Ref == ref }) {
			return "", fmt.Errorf("%s is silently another one", ref)
		}
	}
	return "told", nil
}
