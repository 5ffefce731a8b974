//go:build peers && linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
)

const fullGraph = `version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state_graph_runtime
category: acme
description: A graph
risk: write
permissions: [execute:tool:acme/*]
config:
  start: one
  nodes:
    one: {action: {item_id: acme/mark, params: {text: one}}, assign: {a: "${result.said}"}, next: sure}
    sure: {type: gate, when: "inputs.ask == false", next: two, otherwise: ask}
    ask: {type: gate, ask: "Go on?", next: two, otherwise: two}
    two: {action: {item_id: acme/mark, params: {text: two}}, assign: {b: "${result.said}"}}
`

// A full is a project whose threads, ledger, approvals and audit log are on a file system that has little room.
type full struct {
	t    *testing.T
	disk string
	dir  string
	env  []string
}

func newFull(t *testing.T) *full {
	t.Helper()
	server := modeltest.New(t)
	server.Handle(func(q *modeltest.Request) modeltest.Turn { turn, _ := directed(q); return turn })
	disk := mount(t, 16<<10)
	f := &full{t: t, disk: disk, dir: filepath.Join(disk, "p")}
	home := t.TempDir()
	sandboxtest.Removable(t, home)
	mark := strings.NewReplacer("risk: read", "risk: write").Replace(`# ---
# version: "1.0.0"
# category: acme
# description: Gives back what it is given
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# risk: read
# input_schema: {type: object, properties: {text: {type: string}}}
# ---
def main(params):
    return {"said": params["text"]}
`)
	call := `call rye_execute {"item_type": "tool", "item_id": "acme/mark", "parameters": {"text": "x"}}`
	for name, text := range map[string]string{
		".git/HEAD": "",
		"rye.yaml":  "",
		".ai/tools/acme/providers/local.yaml": strings.ReplaceAll(server.Item("local"),
			"category: rye/agent/providers", "category: acme/providers"),
		".ai/tools/acme/mark.star": mark,
		".ai/tools/acme/flow.yaml": strings.Replace(fullGraph, "config:",
			"input_schema: {type: object, properties: {ask: {type: boolean, default: false}}}\nconfig:", 1),
		".ai/directives/acme/marks.md": directive("marks", mayExecute, call+"\n"+call),
	} {
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	f.env = []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(disk, "state"), "PATH=" + os.Getenv("PATH"),
		"GOCOVERDIR=" + coverDir()}
	f.ok("key", "new", "-q")
	f.ok("sign", "**", "--yes")
	f.ok("lock")
	f.ok("run", "tool:acme/flow") // what is made once is there
	return f
}

// An answered is what a command has said.
type answered struct {
	Success bool `json:"success"`
	Data    struct {
		Thread  string `json:"thread"`
		Status  string `json:"status"`
		Threads []struct {
			Thread string `json:"thread"`
			State  string `json:"state"`
		} `json:"threads"`
		Requests []struct {
			ID string `json:"request"`
		} `json:"requests"`
	} `json:"data"`
	Error *struct {
		Code       string         `json:"code"`
		Message    string         `json:"message"`
		Details    map[string]any `json:"details"`
		Suggestion string         `json:"suggestion"`
	} `json:"error"`
	text string
}

// run runs a command, which says one JSON object.
func (f *full) run(args ...string) (a *answered) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "rye", append(args, "--json")...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = f.dir, f.env, &stdout, &stderr
	err := cmd.Run()
	a = &answered{text: stdout.String() + stderr.String()}
	if bad := json.Unmarshal(stdout.Bytes(), a); bad != nil || a.Success != (err == nil) ||
		a.Success == (a.Error != nil) {
		f.t.Fatalf("%q: %v, %v: %s", args, err, bad, a.text)
	}
	return a
}

// ok runs a command that succeeds.
func (f *full) ok(args ...string) *answered {
	f.t.Helper()
	a := f.run(args...)
	if !a.Success {
		f.t.Fatalf("%q: %s", args, a.text)
	}
	return a
}

// fails checks that an error says what is wrong, and what to do.
func (f *full) fails(kib int64, a *answered) {
	f.t.Helper()
	if a.Error.Code != string(fault.Files) || !strings.Contains(a.Error.Message, "disk is full") &&
		!strings.Contains(a.text, "df -h") {
		f.t.Errorf("with %d KiB: %s", kib, a.text)
	}
}

// room removes what fills the disk, and checks that nothing half-written stays.
func (f *full) room() {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.disk, "filler")); err != nil {
		f.t.Fatal(err)
	}
}

// clean checks that no temporary file is left.
func (f *full) clean() {
	f.t.Helper()
	err := filepath.WalkDir(f.disk, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.Contains(d.Name(), ".tmp") || strings.HasPrefix(d.Name(), ".rye-")) {
			f.t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// goOn has every thread go on that hasn't ended, and checks the records of all.
func (f *full) goOn(seen map[string]bool) (went int) {
	f.t.Helper()
	for _, row := range f.ok("thread", "list").Data.Threads {
		if seen[row.Thread] {
			continue
		}
		seen[row.Thread] = true
		want := 2 // calls
		switch row.State {
		case "interrupted":
			went++
			if a := f.run("thread", "resume", row.Thread); a.Error != nil &&
				a.Error.Details["reason"] == string(fault.Unknown) {
				want = 1 // its result could not be recorded: it isn't made again
			} else if a.Error != nil && a.Error.Code == string(fault.NotFound) {
				continue // it had no transcript
			} else if a.Data.Status != "completed" {
				f.t.Errorf("%s: %s", row.Thread, a.text)
			}
		case "completed":
		case "error", "created": // it could not be started
			continue
		default:
			f.t.Errorf("%s is %s", row.Thread, row.State)
			continue
		}
		f.ok("thread", "verify", row.Thread)
		text, err := os.ReadFile(filepath.Join(f.dir, ".ai", "threads", filepath.FromSlash(row.Thread),
			"transcript.jsonl"))
		if n := strings.Count(string(text), `"ref":"tool:acme/mark"`); err != nil || n < want || n > 2 {
			f.t.Errorf("%s: %d calls, %v", row.Thread, n, err)
		}
	}
	f.ok("audit", "verify")
	f.clean()
	return went
}

// steps are KiB that are left, less often the more there are.
func steps(do func(kib int64) (done bool)) {
	for kib := int64(0); kib <= 1024; kib += 4 + kib/3/4*4 {
		if do(kib) {
			return
		}
	}
}

// TestThreadFullDisk runs threads on a disk on which there is less and less room. What can't be written is an error
// that says so; what was written counts: with room again each thread goes on, makes no call twice, and its record
// verifies.
func TestThreadFullDisk(t *testing.T) {
	for name, args := range map[string][]string{"graph": {"run", "tool:acme/flow"},
		"directive": {"run", "acme/marks"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFull(t)
			refused, went, done, seen := 0, 0, false, map[string]bool{}
			steps(func(kib int64) bool {
				leave(t, f.disk, kib)
				a := f.run(args...)
				if done = a.Success; !done {
					refused++
					f.fails(kib, a)
				}
				f.room()
				went += f.goOn(seen)
				return done
			})
			if refused < 3 || went == 0 || !done {
				t.Errorf("%d were refused, %d went on, in the end: %v", refused, went, done)
			}
		})
	}
}

// TestAsyncFullDisk: a thread in the background that has no room to begin leaves nothing; one that has begun is
// interrupted.
func TestAsyncFullDisk(t *testing.T) {
	t.Parallel()
	f := newFull(t)
	refused, begun, seen := 0, 0, map[string]bool{}
	steps(func(kib int64) bool {
		leave(t, f.disk, kib)
		a := f.run("run", "acme/marks", "--async")
		if !a.Success {
			refused++
			f.fails(kib, a)
			f.room()
			f.goOn(seen)
			return false
		}
		begun++
		end := f.run("thread", "wait", a.Data.Thread)
		f.room()
		f.goOn(seen)
		return end.Success
	})
	if refused == 0 || begun == 0 {
		t.Errorf("%d were refused, %d have begun", refused, begun)
	}
}

// TestApproveFullDisk: an answer that there is no room for isn't given; one that is acknowledged counts.
func TestApproveFullDisk(t *testing.T) {
	t.Parallel()
	f := newFull(t)
	refused, done, seen := 0, false, map[string]bool{}
	steps(func(kib int64) bool {
		thread := f.run("run", "tool:acme/flow", "-i", "ask=true", "--no-wait").Error.Details["thread"].(string)
		id := f.ok("approvals").Data.Requests[0].ID
		leave(t, f.disk, kib)
		a := f.run("approve", id)
		if done = a.Success; !done {
			refused++
			f.fails(kib, a)
		}
		if l := f.run("approvals"); !done && len(l.Data.Requests) != 1 || done && len(l.Data.Requests) != 0 {
			t.Errorf("with %d KiB: %v, and %s wait", kib, done, l.text)
		}
		f.room()
		if !done {
			f.ok("approve", id)
		}
		f.ok("thread", "resume", thread)
		f.goOn(seen)
		return done
	})
	if refused == 0 || !done {
		t.Errorf("%d were refused, in the end: %v", refused, done)
	}
}

// TestPruneFullDisk: what frees a disk works on a full one, with the little room that its own lines take: before that
// nothing is pruned. Threads and the audit log verify before and after.
func TestPruneFullDisk(t *testing.T) {
	t.Parallel()
	f := newFull(t)
	f.ok("run", "acme/marks")
	export := filepath.Join(t.TempDir(), "audit.jsonl")
	f.ok("audit", "export", "--until", "0s", "-o", export)
	f.fillPage()
	refused := map[string]int{}
	for name, args := range map[string][]string{"thread": {"thread", "prune", "--keep", "0s", "--yes"},
		"audit": {"audit", "prune", "--before", "0s", "--export", export}} {
		most := int64(-1)
		steps(func(kib int64) bool {
			leave(t, f.disk, kib)
			a := f.run(args...)
			if !a.Success {
				refused[name]++
				f.fails(kib, a)
			}
			f.room()
			for _, row := range f.ok("thread", "list").Data.Threads {
				if v := f.run("thread", "verify", row.Thread); !v.Success && v.Error.Details["reason"] != "pruned" {
					t.Errorf("with %d KiB: %s", kib, v.text)
				}
			}
			f.ok("audit", "verify")
			f.clean()
			most = kib
			return a.Success
		})
		if most > 64 {
			t.Errorf("%s: needs %d KiB", name, most)
		}
	}
	if refused["thread"] == 0 {
		t.Error("threads are pruned without room for a line")
	}
}

// fillPage has the registry end just before a page does: whatever is added needs another one.
func (f *full) fillPage() {
	f.t.Helper()
	path := filepath.Join(f.disk, "state", "rye", "threads", "registry")
	rows := roster.Open(path, time.Now, nil)
	defer rows.Close()
	size := func() int {
		info, err := os.Stat(path)
		if err != nil {
			f.t.Fatal(err)
		}
		return int(info.Size())
	}
	add := func(id string, more int) {
		row := &roster.Thread{ID: id, Kind: "directive", Directive: "directive:acme/x" + strings.Repeat("x", more),
			Project: roster.Project{Root: "/elsewhere"}, Created: time.Now().UTC()}
		if err := rows.Create(f.t.Context(), row, 0); err != nil {
			f.t.Fatal(err)
		}
	}
	const page, left = 4096, 64
	before := size()
	add("acme/x-1795000000-aaaaa", 0)
	line := size() - before
	add("acme/x-1795000000-bbbbb", page-(size()+line+left)%page)
	if size()%page < page-2*left { // times have more digits or fewer
		f.t.Fatalf("the registry has %d bytes", size())
	}
}
