package operations

import (
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/operate"
)

// open returns the desk for the threads of the user, and what closes it. Outside of a project it is that for all projects.
func open(a *cli.App) (*operate.Desk, func(), error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, nil, state.Err
	}
	p, err := places.Paths(a).FindProject()
	if err != nil && fault.CodeOf(err) != fault.NotFound {
		return nil, nil, err
	}
	rows, money := thread.Local(state.Value, a.Now)
	d := &operate.Desk{Registry: rows, Ledger: money, Now: a.Now, Root: p.Root, Program: "rye " + cli.ThisVersion().Version,
		Kernel: func() (*exec.Kernel, error) { return kernel(a) }}
	return d, func() {
		rows.Close()
		money.Shut()
	}, nil
}

// kernel has only the key of this machine, which signs transcripts.
func kernel(a *cli.App) (*exec.Kernel, error) {
	p, err := audits.Dirs(a)
	if err != nil {
		return nil, err
	}
	own, err := machine.Key(p.Machine)
	if err != nil {
		return nil, err
	}
	return &exec.Kernel{Machine: own, Voucher: machine.Voucher(p.Machine, own.Public())}, nil
}
