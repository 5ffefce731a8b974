package signs

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/lock/clients"
	"github.com/rye-build/rye/manifest/signing"
)

// verifyInstalled compares exported files in the folders of clients with the lock.
func verifyInstalled(ctx context.Context, a *cli.App) (cli.Answer, error) {
	l, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	found, err := clients.Verify(ctx, l.Lock)
	if err != nil {
		return nil, err
	}
	ans := &VerifyReport{Report: &signing.Report{Files: []*signing.Evidence{}}, Installed: found}
	if f := found.Fault(); f != nil {
		return ans, f
	}
	return ans, nil
}

func printInstalled(t *cli.Terminal, r *clients.Report) {
	for _, d := range r.Differences {
		t.Printf("%s  %s  %s of %s\n", t.Stdout.Paint(cli.RoleError, d.Reason, t.Ascii), d.File, d.Ref, d.Client)
	}
	if len(r.Differences) == 0 {
		t.Note("verified %s of %s in the folders of clients", fault.Count(int64(r.Files), "file"),
			fault.Count(int64(r.Items), "item"))
	}
}

func installedFindings(r *clients.Report) (all []sarif.Finding) {
	for _, d := range r.Differences {
		all = append(all, sarif.Finding{Code: fault.LockMismatch, Level: sarif.Error, File: d.File, Name: d.Ref,
			Message: d.Reason + ": " + d.Why, Hint: d.Hint()})
	}
	return all
}
