package catalog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/primitive/mcp"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var alice = catalog.Key{Private: keytest.Alice(), Now: func() time.Time { return projecttest.Noon }}

// The client compares by the same digest.
func TestDefinitionIsTheClients(t *testing.T) {
	for _, tool := range []string{echo,
		`{"name": "a", "title": "", "description": "", "inputSchema": {"type": "object"}, "execution": {"x": 1}}`} {
		announced := parse(t, tool)
		ours, err := catalog.DefinitionOf(announced).Digest()
		theirs, err2 := mcp.Definition(announced)
		if err = errors.Join(err, err2); err != nil || ours != theirs {
			t.Errorf("%s: %s, the client has %s, %v", tool, ours, theirs, err)
		}
	}
}

func newStage(t *testing.T, p *projecttest.Project) (*catalog.Stage, error) {
	t.Helper()
	st, err := catalog.NewStage(t.Context(), p.Paths(), workspace.Options{Offline: true, Now: func() time.Time {
		return projecttest.Noon
	}}, session.Options{}, p.Dir)
	if err == nil {
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return st, err
}

// A stage has the policy and the registries of the real project, and leaves nothing behind.
func TestStage(t *testing.T) {
	p := projecttest.Signed(t)
	p.Write("rye.yaml", "packages: {npm: \"https://npm.acme.example\", pypi: wheels}\n")
	// What a killed process has left is removed after a day.
	old, young := filepath.Join(p.Home, "cache", "stage-1"), filepath.Join(p.Home, "cache", "stage-2")
	yesterday := time.Now().Add(-25 * time.Hour)
	if err := errors.Join(os.MkdirAll(filepath.Join(old, "x"), 0o700), os.MkdirAll(young, 0o700),
		os.Chtimes(old, yesterday, yesterday)); err != nil {
		t.Fatal(err)
	}
	st, err := newStage(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Remove(young); err != nil {
		t.Error(err)
	}
	if at, err := st.Registry("npm"); at != "https://npm.acme.example" || err != nil {
		t.Errorf("%q, %v", at, err)
	}
	if _, err := st.Registry("pypi"); err == nil || !strings.Contains(err.Error(), "a directory as pypi registry") {
		t.Error(err)
	}
	it, err := st.Draft(catalog.PlaceOf("s").Ref(), ".yaml", spec.File(at))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Write(t.Context(), it, alice); err != nil {
		t.Fatal(err)
	}
	// Tools that can't be items are refused, and those that were are left out.
	all, err := catalog.Compare(at, nil, announce(t, echo,
		`{"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "("}}}}`,
		`{"name": "worse", "inputSchema": {"type": 3}}`,
		`{"name": "list", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array", "items": {"type": "nothing"}}}`,
		`{"name": "a b", "inputSchema": {}}`, `{"name": "a_b", "inputSchema": {}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var chosen []*catalog.Change
	for i := range all {
		chosen = append(chosen, &all[i])
	}
	made, err := st.Stubs(t.Context(), at, spec, chosen, alice)
	if err != nil || len(made) != 1 || made[0].Ref != catalog.PlaceOf("s").Tool("echo") {
		t.Errorf("%v, %v", made, err)
	}
	for i := range all {
		if (all[i].Refused == "") != (all[i].Tool == "echo") {
			t.Errorf("%s: %q", all[i].Tool, all[i].Refused)
		}
	}
	// What is staged already isn't replaced.
	if _, err := st.Stubs(t.Context(), at, spec, chosen, alice); err == nil {
		t.Error("an item of the stage was replaced")
	}
	other := *spec
	other.Packages, other.Lib = "_s/package-lock.json", "_s"
	bad, err := st.Draft(catalog.PlaceOf("t").Ref(), ".yaml", append(other.File(at), "answer: x\n"...))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Write(t.Context(), bad, alice); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Prepare(t.Context(), bad.Ref, true); err == nil {
		t.Error("a list of packages that isn't there")
	}
	if _, err := st.Draft(catalog.PlaceOf("../x").Ref(), ".yaml", nil); err == nil {
		t.Error("a place outside")
	}
	left, _ := filepath.Glob(filepath.Join(p.Home, "cache", "stage-*"))
	if len(left) != 1 {
		t.Errorf("%q", left)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Home, "cache", "stage-*")); len(left) != 0 {
		t.Errorf("%q", left)
	}
}

// Where the project or the cache is broken there is no stage.
func TestNoStage(t *testing.T) {
	for name, broken := range map[string]func(p *projecttest.Project) error{
		"rye.yaml": func(p *projecttest.Project) error {
			return os.WriteFile(p.At("rye.yaml"), []byte("packages: 3\n"), 0o600)
		},
		"policy": func(p *projecttest.Project) error { return os.Mkdir(p.At(".ai/policy.yaml"), 0o700) },
		"cache": func(p *projecttest.Project) error {
			return os.WriteFile(filepath.Join(p.Home, "cache"), nil, 0o600)
		},
	} {
		p := projecttest.New(t)
		if err := broken(p); err != nil {
			t.Fatal(err)
		}
		if st, err := newStage(t, p); err == nil {
			t.Errorf("%s: %v", name, st)
		}
	}
	at := projecttest.New(t).Paths()
	at.Cache.Err = errors.New("no cache")
	if _, err := catalog.NewStage(t.Context(), at, workspace.Options{}, session.Options{}, ""); err == nil {
		t.Error("a stage without a cache")
	}
}

// A file that is in the way, or that changed, stops the whole: nothing of it is left.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	space, err := ai.OpenDir(dir, "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	draft := func(name string) *ai.Item {
		it := item(t, catalog.PlaceOf(name).Ref(), spec.File(at))
		it.Space = space
		return it
	}
	files := func() (n int) {
		_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, _ error) error {
			if !e.IsDir() {
				n++
			}
			return nil
		})
		return n
	}
	a, b := draft("a"), draft("b")
	beside := []catalog.Beside{{Path: "tools/mcp/servers/_a/x", Bytes: []byte("x")}}
	if err := catalog.Install(t.Context(), space, nil, []*ai.Item{b}, nil, projecttest.Noon); err != nil {
		t.Fatal(err)
	}
	if err := catalog.Install(t.Context(), space, beside, []*ai.Item{a, b}, nil,
		projecttest.Noon); fault.CodeOf(err) != fault.Conflict || files() != 1 {
		t.Errorf("%v, %d files", err, files())
	}
	// One that is replaced must be what was looked at.
	old := *b
	next := *edit.Draft(b.File, append(spec.File(at), "tags: [x]\n"...))
	replaced := map[string]*ai.Item{b.Ref.String(): &old}
	if err := catalog.Install(t.Context(), space, nil, []*ai.Item{a, &next}, replaced, projecttest.Noon); err != nil ||
		files() != 2 {
		t.Errorf("%v, %d files", err, files())
	}
	if err := catalog.Install(t.Context(), space, nil, []*ai.Item{&next}, replaced,
		projecttest.Noon); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(b.Path))); err != nil {
		t.Fatal(err)
	}
	if err := catalog.Install(t.Context(), space, nil, []*ai.Item{&next}, replaced, projecttest.Noon); err == nil {
		t.Error("a file that is gone was replaced")
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"x/y", "x"} {
		if err := catalog.Install(t.Context(), space, []catalog.Beside{{Path: path}}, nil, nil,
			projecttest.Noon); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

func TestBrokenMemory(t *testing.T) {
	m := catalog.MemoryIn(t.TempDir(), "/space")
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{}", "{", `{"announcement": {"tools": [{"name": "a"}, {"name": "a"}]}}`,
		`{"announcement": 3}`} {
		if err := os.WriteFile(filepath.Join(m.Dir, "s.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Get("s"); fault.CodeOf(err) != fault.Parsing {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := os.Mkdir(filepath.Join(m.Dir, "t.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get("t"); err == nil {
		t.Error("a directory was read")
	}
	big := announce(t, `{"name": "a", "description": "`+strings.Repeat("x", catalog.MaxAnnouncement)+`"}`)
	if err := m.Put("s", &catalog.Known{Announcement: big}); fault.CodeOf(err) != fault.Limit {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := catalog.MemoryIn(file, "x").Put("s", &catalog.Known{Announcement: announce(t)}); err == nil {
		t.Error("written below a file")
	}
}

// Numbers stay what they are, and what only differs in words that nothing knows is still a change.
func TestNumbers(t *testing.T) {
	tool := func(unknown string) string {
		return `{"name": "n", "inputSchema": {"type": "object", "properties": {"a": {"enum": [1e21, -1.5e300, 1e-9, 0.1, 9007199254740992]}}, "x-unknown": ` +
			unknown + `}, "outputSchema": {"type": "object"}}`
	}
	pinned := pin(t, "s", announce(t, tool("1")))
	all, err := catalog.Compare(at, pinned, announce(t, tool("2")), nil)
	if err != nil || len(all) != 1 || all[0].State != catalog.Changed || len(all[0].Texts) == 0 &&
		all[0].Shape == nil {
		t.Errorf("%+v, %v", all, err)
	}
	pin(t, "s", announce(t, `{"name": "none"}`))
	half := strings.Replace(string(spec.File(at)), "timeout: 20", "timeout: 1.5", 1)
	if s, err := catalog.SpecOf(item(t, at.Ref(), []byte(half)).Model); err != nil || s.Timeout != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	// The limits of a server are those of its tools.
	limited, err := catalog.SpecOf(item(t, catalog.PlaceOf("s").Ref(),
		append(spec.File(at), "limits: {memory_mib: 300, duration_seconds: 1.5}\n"...)).Model)
	if err != nil {
		t.Fatal(err)
	}
	b, err := catalog.Stub(at, limited, announce(t, echo).Tools[0])
	if err != nil || !strings.Contains(string(b), "limits:\n  duration_seconds: 1.5\n  memory_mib: 300\n") {
		t.Errorf("%s, %v", b, err)
	}
	item(t, catalog.PlaceOf("s").Tool("echo"), b)
	b, err = catalog.Stub(at, spec, announce(t, echo).Tools[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"blake3:", "x"} {
		text := strings.Replace(string(b), string(b[strings.Index(string(b), "blake3:"):strings.Index(string(b),
			"blake3:")+71]), bad, 1)
		if _, err := catalog.PinnedOf(item(t, catalog.PlaceOf("s").Tool("echo"),
			[]byte(text))); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
