package resume

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
)

// TestOrchestrateRefused: what is wrong with an operation is said before anything is done.
func TestOrchestrateRefused(t *testing.T) {
	dir := t.TempDir()
	rows, money := roster.Open(filepath.Join(dir, "registry"), time.Now, nil),
		ledger.In(filepath.Join(dir, "ledger"), nil)
	t.Cleanup(func() { rows.Close(); money.Shut() })
	row := &roster.Thread{ID: "acme/a-1795000000-a2b3c", Kind: "directive", Directive: "directive:acme/a",
		Project: roster.Project{Root: dir}, Created: time.Now()}
	if err := rows.Create(t.Context(), row, 0); err != nil {
		t.Fatal(err)
	}
	controller := &control.Controller{Roster: rows, Ledger: money, Now: time.Now, Root: dir,
		WaitsPath: filepath.Join(dir, "waits")}
	open := func() (*thread.Engine, *control.Controller, error) { return new(thread.Engine), controller, nil }
	self := &control.Self{Thread: row.ID, Allows: func(verb, kind, id string) error { return nil }}
	for name, c := range map[string]struct {
		ctx      context.Context
		stranger bool
		open     Open
		p        Params
		want     fault.Code
	}{
		"unknown":  {p: Params{Operation: "none"}, want: fault.Validation},
		"stranger": {stranger: true, p: Params{Operation: "list_active"}, want: fault.Denied},
		"no session": {open: func() (*thread.Engine, *control.Controller, error) {
			return nil, nil, fault.New(fault.Config, "no")
		}, p: Params{Operation: "list_active"}, want: fault.Config},
		"no thread":  {p: Params{Operation: "get_status"}, want: fault.Validation},
		"no threads": {p: Params{Operation: "wait_threads"}, want: fault.Validation},
		"not found":  {p: Params{Operation: "wait_threads", Threads: []string{"acme/b"}}, want: fault.NotFound},
		"itself": {ctx: control.As(t.Context(), self), stranger: true,
			p: Params{Operation: "wait_threads", Threads: []string{row.ID}}, want: fault.Conflict},
		"no message": {p: Params{Operation: "resume_thread", Thread: row.ID}, want: fault.Validation},
		"not ended":  {p: Params{Operation: "resume_thread", Thread: row.ID, Message: "x"}, want: fault.NotFound},
		"no expression": {p: Params{Operation: "chain_search", Thread: row.ID, Query: "(", Kind: "regex"},
			want: fault.Validation},
	} {
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		if c.open == nil {
			c.open = open
		}
		if v, err := run(c.ctx, &function.Call{Action: &primitive.Action{Stranger: c.stranger}}, c.p,
			c.open); err == nil || fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	// A thread that nothing drives yet has not ended: the wait is over when its time is.
	controller.Root = ""
	if v, err := run(t.Context(), &function.Call{Action: &primitive.Action{}},
		Params{Operation: "wait_threads", Threads: []string{row.ID}, Timeout: 0.001}, open); err != nil &&
		fault.CodeOf(err) != fault.NotFound {
		t.Errorf("%v, %v", v, err)
	}
}
