package toolcall_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const childID = "acme/step-1795000001-k3v9q"

var (
	machine    = keytest.Seeded(1)
	detachNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	lock       = cas.Sum([]byte("rye.lock"))
	step       = model.Ref{Kind: "directive", ID: "acme/step"}
)

// parent is a thread whose children run the program of this test, which writes its job to their logs.
func parent(t *testing.T) *toolcall.Parent {
	t.Helper()
	grants, err := capability.ParseSet([]string{"rye.execute.tool.acme.*"})
	if err != nil {
		t.Fatal(err)
	}
	most := limits.Set{Turns: 9, Tokens: 1000, Spawns: 4, Depth: 3, Spend: 5e8, Duration: time.Hour}
	return &toolcall.Parent{Thread: "acme/plan-1795000000-a2b3c", Directive: "directive:acme/plan", Dir: t.TempDir(),
		Set: lock, Grants: grants, Limits: most,
		Machine: machine, Now: detachNoon, Command: func(model.Ref) (proc.Command, error) {
			return command(t, "child"), nil
		}}
}

// TestChild: the process of a child gets its inputs, and tokens for its own thread, its own directive, this lock and
// this hour alone; its limits are no higher than its parent's, and it has a level less below it. Its parent and limits
// are those of the job that this machine has signed.
func TestChild(t *testing.T) {
	p := parent(t)
	word, err := p.Start(t.Context(), childID, step,
		&toolcall.DetachedChild{Inputs: map[string]any{"what": "this"}, Part: 2, Chosen: true})
	if err != nil || word.Thread != childID || word.Process == os.Getpid() {
		t.Fatalf("%+v, %v", word, err)
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, filepath.FromSlash(childID), toolcall.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	job, err := toolcall.ParseJob(text)
	if err != nil {
		t.Fatal(err)
	}
	a, inputs, err := job.Take(machine.Public(), step, lock, detachNoon)
	if err != nil || !reflect.DeepEqual(inputs, map[string]any{"what": "this"}) || a.Parent != p.Thread ||
		a.Part != 2 || !a.Chosen ||
		!reflect.DeepEqual(a.Chain.Last().Grants, p.Grants) {
		t.Fatalf("%+v, %v, %v", a, inputs, err)
	}
	own := limits.Set{Turns: 99, Tokens: 10, Spawns: 9, Depth: 9, Spend: 9e9, Duration: time.Minute}
	if a.Bound(&own); own != (limits.Set{Turns: 9, Tokens: 10, Spawns: 4, Depth: 2, Spend: 5e8,
		Duration: time.Minute}) {
		t.Errorf("%+v", own)
	}
	a.Most.Depth, own.Depth = 9, 9
	if a.Bound(&own); own.Depth != 2 {
		t.Errorf("%+v: deeper than its token says", own)
	}

	for name, c := range map[string]struct {
		machine   byte
		directive string
		lock      string
		after     time.Duration
		change    func(*toolcall.Job)
		code      fault.Code
	}{
		"of another machine": {2, "acme/step", "rye.lock", 0, nil, fault.UntrustedKey},
		"for another one":    {1, "acme/plan", "rye.lock", 0, nil, fault.Denied},
		"for another lock":   {1, "acme/step", "other.lock", 0, nil, fault.LockMismatch},
		"late":               {1, "acme/step", "rye.lock", 61 * time.Minute, nil, fault.Expired},
		"of another thread": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			j.Thread = "acme/step-1795000001-zzzzz"
		}, fault.Denied},
		"without tokens": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			j.Child.Tokens = nil
		}, fault.Denied},
		"of no thread": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) { j.Child.Parent = "" }, fault.Denied},
		"with other limits": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			j.Child.Most.Turns = 1000
		}, fault.Denied},
		"without a signature": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) { j.Signed = nil }, fault.Denied},
		"signed as another document": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			e, err := attest.ParseEnvelope(j.Signed)
			must(t, err)
			_, payload, _, err := e.Verify([]key.Public{machine.Public()}, 1)
			must(t, err)
			e, err = attest.NewEnvelope("application/vnd.rye.receipt.v2", payload)
			must(t, err)
			must(t, e.Sign(machine))
			j.Signed, err = e.Append(nil)
			must(t, err)
		}, fault.Denied},
		"signed by another machine": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			if err := j.Sign(keytest.Seeded(2)); err != nil {
				t.Fatal(err)
			}
		}, fault.Denied},
		"with a number beyond": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			j.Child.Inputs["n"] = json.Number("1e999")
		}, fault.Validation},
		"with no number": {1, "acme/step", "rye.lock", 0, func(j *toolcall.Job) {
			j.Child.Inputs["n"] = json.Number("x")
		}, fault.Validation},
	} {
		j, err := toolcall.ParseJob(text)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(j)
		}
		_, _, err = j.Take(keytest.Seeded(c.machine).Public(), model.Ref{Kind: "directive", ID: c.directive},
			cas.Sum([]byte(c.lock)), detachNoon.Add(c.after))
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s)", name, err, fault.CodeOf(err))
		}
		if c.code == fault.Validation && (!strings.Contains(err.Error(), `input "n"`) ||
			!strings.Contains(fmt.Sprint(fault.Of(err).Object().Details), "field:n")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChildRefused: a child that can't be started is an error that says why, and there is no directory of it.
func TestChildRefused(t *testing.T) {
	missing := errors.New("this program is gone")
	for name, c := range map[string]struct {
		change func(*toolcall.Parent)
		want   error
		code   fault.Code
	}{
		"no processes": {func(p *toolcall.Parent) { p.Command = nil }, nil, fault.Validation},
		"no program": {func(p *toolcall.Parent) {
			p.Command = func(model.Ref) (proc.Command, error) { return proc.Command{}, missing }
		}, missing, ""},
		"too deep":     {func(p *toolcall.Parent) { p.Limits.Depth = 0 }, nil, fault.Limit},
		"a long name":  {func(p *toolcall.Parent) { p.Thread += string(make([]byte, 300)) }, nil, ""},
		"a long chain": {func(p *toolcall.Parent) { p.Chain = chain(t, p, captoken.MaxChain) }, nil, fault.TooDeep},
		"its own error": {func(p *toolcall.Parent) {
			p.Command = func(model.Ref) (proc.Command, error) { return command(t, "refuse"), nil }
		}, nil, fault.Limit},
	} {
		p := parent(t)
		c.change(p)
		_, err := p.Start(t.Context(), childID, step, &toolcall.DetachedChild{})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || c.code != "" && fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s)", name, err, fault.CodeOf(err))
		}
		if _, err := os.Stat(filepath.Join(p.Dir, filepath.FromSlash(childID))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its directory is left", name)
		}
	}
	p := parent(t)
	p.Chain = chain(t, p, captoken.MaxChain-1)
	if _, err := p.Start(t.Context(), childID, step, &toolcall.DetachedChild{}); err != nil {
		t.Errorf("the last that a chain may have: %v", err)
	}
	p = parent(t)
	p.Limits.Depth = 1
	if _, err := p.Start(t.Context(), childID, step, &toolcall.DetachedChild{}); err != nil {
		t.Errorf("one level, which the limit allows: %v", err)
	}
}

// chain returns a chain of n tokens, the last for the parent.
func chain(t *testing.T, p *toolcall.Parent, n int) (c *captoken.Chain) {
	t.Helper()
	for range n - 1 {
		own := captoken.New(p.Thread, p.Directive, p.Set, p.Grants, 100, detachNoon, time.Hour)
		texts, err := c.Give(p.Machine, own, captoken.New(p.Thread, p.Directive, p.Set, p.Grants, 100, detachNoon,
			time.Hour), detachNoon)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = captoken.Take(texts, captoken.Use{Machine: p.Machine.Public(), Thread: p.Thread, Parent: p.Thread,
			Directive: p.Directive, Set: p.Set, Now: detachNoon}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestChildAgain: what a parent has left that was killed while it started a child is no obstacle; the directory of a
// thread stays.
func TestChildAgain(t *testing.T) {
	for name, c := range map[string]struct {
		again bool
		file  string
		ok    bool
	}{"a log": {true, toolcall.LogFile, true}, "a thread": {true, "transcript.jsonl", false},
		"the first time": {false, toolcall.LogFile, false}} {
		p := parent(t)
		p.Again = c.again
		dir := filepath.Join(p.Dir, filepath.FromSlash(childID))
		if err := errors.Join(os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, c.file), []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Start(t.Context(), childID, step, &toolcall.DetachedChild{}); c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, c.file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
