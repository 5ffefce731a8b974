package operations

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/rye-build/rye/cmd/rye/approvals"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/resume"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/lock/workspace"
)

// open returns the controller for the user's threads, and a function that closes it. In a project the controller is
// limited to the project's threads.
func open(a *cli.App) (*control.Controller, func(), error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, nil, state.Err
	}
	p, err := paths.Paths(a).FindProject()
	if err != nil && !errors.Is(err, workspace.ErrNoProject) {
		return nil, nil, err
	}
	rows, money := thread.Local(state.Value, a.Now)
	return controller(a, rows, money, p.Root), func() {
		rows.Close()
		money.Shut()
	}, nil
}

// kernel returns a kernel that has only this machine's key, which signs transcripts.
func kernel(a *cli.App) (*exec.Kernel, error) {
	p, err := audits.Dirs(a)
	if err != nil {
		return nil, err
	}
	own, err := receipt.MachineKey(p.Machine)
	if err != nil {
		return nil, err
	}
	return &exec.Kernel{Machine: own, Voucher: receipt.Voucher(p.Machine, own.Public())}, nil
}

func controller(a *cli.App, rows roster.Roster, money ledger.Ledger, root string) *control.Controller {
	return &control.Controller{WaitsPath: filepath.Join(a.Dir(cli.StatePlace).Value, "threads", control.WaitsFile),
		Roster: rows, Ledger: money, Now: a.Now, Root: root, Program: "rye " + cli.ThisVersion().Version,
		Kernel: func() (*exec.Kernel, error) { return kernel(a) },
		Forget: func(ctx context.Context, thread, why string) error { return approvals.Forget(ctx, a, thread, why) }}
}

// Functions returns the function of the tool rye/agent/threads/orchestrator. open opens the engine that runs
// threads.
func Functions(a *cli.App, open func() (*thread.Engine, error)) function.Functions {
	return resume.Functions(func() (*thread.Engine, *control.Controller, error) {
		e, err := open()
		if err != nil {
			return nil, nil, err
		}
		return e, controller(a, e.Roster, e.Ledger, filepath.Dir(filepath.Dir(e.Dir))), nil
	})
}
