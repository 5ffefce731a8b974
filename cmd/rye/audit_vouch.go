package main

import (
	"context"

	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/record"
)

func auditVouchCommand() command {
	return command{
		path: "audit vouch", group: "run", help: "Vouch for this machine's key with your own.",
		more: "The log and receipts are signed while nobody is there to give a passphrase, by a key of this machine. Your word for it, which is given " +
			"once and travels with every receipt, lets others verify them with your public key. It is given on its own, when a call is first written " +
			"down, if your key needs no passphrase; with this command else, and to change the name or the key. The name is for people.\n\n" +
			"Examples:\n\n    rye audit vouch\n    rye audit vouch --key release --name build-7",
		aka: []string{"audit enroll"},
		new: func() runner { return new(auditVouchRun) }, schema: "audit-vouch/1", output: auditVouchAnswer{},
	}
}

type auditVouchRun struct {
	Name string `placeholder:"NAME" help:"What to call this machine instead of the name it has in the network."`
	keyFlag
}

type auditVouchAnswer struct {
	Machine string `json:"machine"` // fingerprints
	By      string `json:"by"`
	Name    string `json:"name"` // of the key
}

func (*auditVouchRun) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

func (c *auditVouchRun) run(ctx context.Context, a *app) (answer, error) {
	if c.Name != "" {
		if err := record.CheckText("name", c.Name); err != nil {
			return nil, err
		}
	}
	p, err := a.auditPlaces()
	if err != nil {
		return nil, err
	}
	user, err := a.signingKey(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	own, err := machine.Key(p.machine)
	if err != nil {
		return nil, err
	}
	if _, err := a.vouch(p, own.Public(), user.Private, c.Name); err != nil {
		return nil, err
	}
	return auditVouchAnswer{own.Public().Fingerprint().String(), user.Public().Fingerprint().String(), user.name}, nil
}

func (v auditVouchAnswer) text(t *terminal) {
	t.printf("%q %s vouches for the machine %s\n", v.Name, short(v.By), short(v.Machine))
}
