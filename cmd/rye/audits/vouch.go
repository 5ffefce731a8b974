package audits

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
)

type auditVouchRun struct {
	Name string `placeholder:"NAME" help:"Name of this machine; default: its host name."`
	trusts.KeyFlag
}

type auditVouchAnswer struct {
	Machine string `json:"machine"` // fingerprint of the machine's key
	By      string `json:"by"`      // fingerprint of the key that signed it
	Name    string `json:"name"`    // local name of that key
}

func (c *auditVouchRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Name != "" {
		if err := record.CheckText("name", c.Name); err != nil {
			return nil, err
		}
	}
	dirs, err := Dirs(app)
	if err != nil {
		return nil, err
	}
	user, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	own, err := receipt.MachineKey(dirs.Machine)
	if err != nil {
		return nil, err
	}
	if _, err := receipt.Enroll(dirs.Machine, own.Public(), c.Name, user.Private, app.Now()); err != nil {
		return nil, err
	}
	return auditVouchAnswer{own.Public().Fingerprint().String(), user.Public().Fingerprint().String(), user.Name}, nil
}

func (v auditVouchAnswer) Text(t *cli.Terminal) {
	t.Printf("%q %s vouches for the machine %s\n", v.Name, paths.Short(v.By), paths.Short(v.Machine))
}
