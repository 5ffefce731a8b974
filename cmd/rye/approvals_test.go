package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/approval/approvaltest"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/thread/roster"
)

// asked is "asked VAR": it waits until a request is pending and its thread waits for the answer. The variable is the
// id of the request.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: asked VAR")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	state, waits := filepath.Join(ts.Getenv("XDG_STATE_HOME"), "rye"), ""
	l := approval.Open(state, time.Now, nil, nil)
	defer l.Close()
	ts.Check(l.Watch(ctx, approval.Filter{Open: true}, func(all []*approval.Request) (bool, error) {
		for _, r := range all {
			if r.State == approval.Pending {
				ts.Setenv(args[0], r.ID)
				waits = r.Thread
				return true, nil
			}
		}
		return false, nil
	}))
	if waits == "" {
		return
	}
	rows := roster.Open(filepath.Join(state, "threads", "registry"), time.Now, nil) // a thread asks, and then it waits
	defer rows.Close()
	for mark := ""; ; {
		row, err := roster.Get(ctx, rows, waits)
		ts.Check(err)
		if row.State != roster.Running {
			return
		}
		mark, err = rows.Changed(ctx, mark)
		ts.Check(err)
	}
}

// approvalWords makes two requests in a home, one to approve and one to deny.
func approvalWords(t *testing.T, home string) map[string][]string {
	t.Helper()
	h, _, _ := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	l := approval.Open(a.Dir(cli.StatePlace).Value, a.Now, noLog{}, nil)
	defer l.Close()
	var ids []string
	for range 2 {
		r, err := l.Make(t.Context(), approvaltest.New(), []byte(`{"amount":120}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return map[string][]string{"approvals": {ids[0]}, "approve": {ids[0]}, "deny": {ids[1], "--reason", "no"}}
}

type noLog struct{}

func (noLog) Ask(context.Context, *record.Approval) error { return nil }
