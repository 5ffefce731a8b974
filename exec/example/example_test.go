package example

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A doing is a primitive that does what a test wants.
type doing func(ctx context.Context, a *primitive.Action) (*primitive.Result, error)

func (d doing) Run(ctx context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
	return d(ctx, a)
}

const process = "rye/core/primitives/p"

var errNo = errors.New("no")

// try runs the examples of one tool, which is of the library, and returns what was different, by their names.
func try(t *testing.T, ctx context.Context, more string, do doing) (map[string]*Outcome, error) {
	t.Helper()
	dir := sandboxtest.Dir(t)
	sandboxtest.Removable(t, dir)
	const head = "version: 1.2.3\ntool_type: test\ndescription: a test\n"
	library := &ai.Space{Label: "system:rye/std", Builtin: true, FS: fstest.MapFS{
		"tools/" + process +
			".yaml": {Data: []byte(head +
			"category: rye/core/primitives\nexecutor_id: null\nconfig_schema: {type: object}\n")},
		"tools/rye/x.yaml": {Data: []byte(head + "category: rye\nexecutor_id: " + process +
			"\nconfig: {project: '{project_path}', do: '{do}'}\n" +
			"input_schema: {type: object, properties: {do: {type: string, default: ''}}}\n" + more)},
	}}
	view, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{library}})
	if err != nil {
		t.Fatal(err)
	}
	copies, err := materialise.Open(filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	machine, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{4}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(audit.Options{Dir: filepath.Join(dir, "audit"), Key: machine, Now: time.Now,
		Program: "rye test"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(context.Background())
	k := &exec.Kernel{
		Copies: copies, Primitives: map[string]primitive.Primitive{process: do}, Host: env.Host{Files: env.Disk{}},
		Now:     time.Now,
		Machine: machine, Log: log,
	}
	b := &exec.Base{Resolver: view, Admit: ai.NewAdmitter(view, nil)}
	r := &Runner{Code: code, Scratch: copies.Scratch,
		Prepare: func(ctx context.Context, c *exec.Call) (*exec.Plan, error) { return k.Prepare(ctx, b, c) }}
	ref := model.Ref{Kind: "tool", ID: "rye/x"}
	it, err := view.Find(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*Outcome{}
	for i := range it.Model.Tool.Examples {
		e := &it.Model.Tool.Examples[i]
		o, err := r.Run(ctx, ref, it.Model.Tool, e)
		if err != nil {
			return nil, err
		}
		out[e.Name] = o
	}
	left, err := os.ReadDir(filepath.Join(dir, "cache", "scratch"))
	if err != nil || len(left) > 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	return out, nil
}

func code(err error) string {
	if errors.Is(err, errNo) {
		return "PERMISSION_DENIED"
	}
	if e, ok := fault.Find(err); ok {
		return string(e.Code)
	}
	return "UNKNOWN_ERROR"
}

func (o *Outcome) told() string {
	var all []string
	for _, d := range o.Differences {
		all = append(all, fmt.Sprintf("%s: %s, not %s", d.Path, d.Found, d.Expected))
	}
	return strings.Join(all, "; ")
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		expected, found any
		want            string
	}{
		{int64(1), 1.0, ""},
		{int64(1), "1", `r: "1", not 1`},
		{nil, nil, ""},
		{nil, false, "r: false, not null"},
		{map[string]any{}, map[string]any{"a": nil}, ""},
		{map[string]any{"a": nil}, map[string]any{}, "r.a: , not null"},
		{map[string]any{"a": map[string]any{"b": int64(2)}},
			map[string]any{"a": map[string]any{"b": int64(3), "c": nil}}, "r.a.b: 3, not 2"},
		{map[string]any{}, []any{}, "r: [], not {}"},
		{[]any{int64(1), map[string]any{}}, []any{int64(2), map[string]any{"a": true}}, "r[0]: 2, not 1"},
		{[]any{int64(1)}, []any{int64(1), int64(2)}, "r: [1,2], not [1]"},
		{"a", "b", `r: "b", not "a"`},
		{missing{}, "b", `r: "b", not `},
	} {
		var o Outcome
		if o.compare("r", c.expected, c.found); o.told() != c.want || o.Passed() != (c.want == "") {
			t.Errorf("%v and %v: %s", c.expected, c.found, o.told())
		}
	}
	var o Outcome
	if o.compare("r", "a", "\xff"); o.Passed() {
		t.Error("what is no text is one")
	}
}

func TestRun(t *testing.T) {
	const examples = `files: {read: [in], write: [out, made]}
examples:
  - {name: gives, params: {do: give}, result: {do: 1}}
  - {name: sees, params: {do: see}, files: {in/a: x, made: y, rye.yaml: z}, result: {in/a: x, made: y, rye.yaml: z, rye.lock: '', out: dir, .ai: dir, .git: dir}}
  - {name: leaves, params: {do: leave}, expect_files: {out/a: a, out/b: other, out/c: c, out/link: b, out/none: null, out/long: l}}
  - {name: fails, params: {do: fail}, error: EXECUTION_FAILED, exit: 3, result: {do: 2}}
  - {name: fails otherwise, params: {do: fail}, exit: 4}
  - {name: refuses, params: {do: refuse}, error: PERMISSION_DENIED}
  - {name: refuses too, params: {do: refuse}, result: 1, expect_files: {a: b}}
  - {name: takes, params: {do: 1}, error: VALIDATION_FAILED}
  - {name: can't be, files: {a: b, a/b: c}, error: EXECUTION_FAILED}
  - {name: leads away, params: {do: lead}, expect_files: {out/away/x: y}}
  - {name: wrong, error: wrong}
`
	got, err := try(t, t.Context(), examples, func(_ context.Context, a *primitive.Action) (*primitive.Result, error) {
		project := a.Config["project"].(string)
		r := &primitive.Result{Level: floor.Namespace, Value: map[string]any{"do": int64(1)}}
		switch params := a.Config["do"]; params {
		case "see":
			seen := map[string]any{}
			for _, name := range []string{"in/a", "made", "rye.yaml", "rye.lock"} {
				if b, err := os.ReadFile(filepath.Join(project, name)); err == nil {
					seen[name] = string(b)
				}
			}
			for _, name := range []string{"out", ".ai", ".git"} {
				if info, err := os.Stat(filepath.Join(project, name)); err == nil && info.IsDir() {
					seen[name] = "dir"
				}
			}
			r.Value = seen
		case "leave":
			for name, text := range map[string]string{"a": "a", "b": "b", "none": "",
				"long": "l" + strings.Repeat("x", 5000)} {
				if err := os.WriteFile(filepath.Join(project, "out", name), []byte(text), 0o600); err != nil {
					return nil, err
				}
			}
			os.Symlink("b", filepath.Join(project, "out", "link"))
		case "lead":
			if err := os.Symlink(os.TempDir(), filepath.Join(project, "out", "away")); err != nil {
				return nil, err
			}
		case "fail":
			r.Failed, r.Failure, r.Exit, r.Value = true, "no luck", 3, map[string]any{"do": int64(2)}
		case "refuse":
			return nil, errNo
		}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	long := `"l` + strings.Repeat("x", 1024) + `"`
	for name, want := range map[string]string{
		"gives": "", "sees": "", "fails": "", "refuses": "", "takes": "",
		"leaves": `expect_files.out/b: "b", not "other"; expect_files.out/c: , not "c"; expect_files.out/link: , not "b"; expect_files.out/long: ` +
			long + `, not "l"; expect_files.out/none: "", not `,
		"fails otherwise": "exit: 3, not 4",
		"refuses too":     `error: "PERMISSION_DENIED", not `,
		"can't be":        `error: "UNKNOWN_ERROR", not "EXECUTION_FAILED"`,
		"leads away":      `error: "UNKNOWN_ERROR", not `,
		"wrong":           `error: "VALIDATION_FAILED", not "wrong"`,
	} {
		o := got[name]
		if o == nil || o.told() != want {
			t.Errorf("%s: got %+v", name, o)
		}
	}
	if o := got["fails"]; o.Call == "" || o.Receipt.IsZero() || o.Failure != "no luck" || o.Level != floor.Namespace {
		t.Errorf("got %+v", o)
	}
	if o := got["refuses"]; !errors.Is(o.Err, errNo) || o.Call == "" {
		t.Errorf("got %+v", o)
	}
	if o := got["wrong"]; o.Call != "" || o.Err == nil {
		t.Errorf("got %+v", o)
	}
}

// TestCancelled ends while an example runs.
func TestCancelled(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	got, err := try(t, ctx, "examples: [{name: a}]\n",
		func(context.Context, *primitive.Action) (*primitive.Result, error) {
			stop(errNo)
			return &primitive.Result{Ended: "cancelled", Failed: true}, nil
		})
	if got != nil || !errors.Is(err, errNo) {
		t.Errorf("got %v, %v", got, err)
	}
}
