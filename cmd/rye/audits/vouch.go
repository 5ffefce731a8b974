package audits

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/record"
)

func AuditVouchCommand() cli.Command {
	return cli.Command{
		Path: "audit vouch", Quiet: true, Group: "run", Help: "Sign this machine's key with your own.",
		More: "The log and receipts are signed while nobody is there to give a passphrase, by a key of this machine. Your word for it, which is given " +
			"once and travels with every receipt, lets others verify them with your public key. It is given on its own, when a call is first written " +
			"down, if your key needs no passphrase; with this command else, and to change the name or the key. The name is for people.\n\n" +
			"Examples:\n\n    rye audit vouch\n    rye audit vouch --key release --name build-7",
		Aka: []string{"audit enroll"},
		New: func() cli.Runner { return new(auditVouchRun) }, Schema: "audit-vouch/1", Output: auditVouchAnswer{},
	}
}

type auditVouchRun struct {
	Name string `placeholder:"NAME" help:"Name of this machine; default: its host name."`
	trusts.KeyFlag
}

type auditVouchAnswer struct {
	Machine string `json:"machine"` // fingerprints
	By      string `json:"by"`
	Name    string `json:"name"` // of the key
}

func (*auditVouchRun) Complete(_ context.Context, a *cli.App, name, _ string) []cli.Candidate {
	if name == "key" {
		return trusts.CompleteKeys(a)
	}
	return nil
}

func (c *auditVouchRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Name != "" {
		if err := record.CheckText("name", c.Name); err != nil {
			return nil, err
		}
	}
	p, err := Dirs(a)
	if err != nil {
		return nil, err
	}
	user, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	own, err := machine.Key(p.Machine)
	if err != nil {
		return nil, err
	}
	if _, err := machine.Enroll(p.Machine, own.Public(), c.Name, user.Private, a.Now()); err != nil {
		return nil, err
	}
	return auditVouchAnswer{own.Public().Fingerprint().String(), user.Public().Fingerprint().String(), user.Name}, nil
}

func (v auditVouchAnswer) Text(t *cli.Terminal) {
	t.Printf("%q %s vouches for the machine %s\n", v.Name, places.Short(v.By), places.Short(v.Machine))
}
