package locks

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/restore"
)

type vendorRun struct {
	Check bool `help:"Change nothing; exit with 1 if out of date."`
}

// VendorAnswer is the result of rye vendor.
type VendorAnswer struct {
	*restore.VendorResult
	failed bool
}

func (v VendorAnswer) Text(term *cli.Terminal) {
	for _, p := range v.Problems {
		term.Printf("%s\n", p)
	}
	if v.failed {
		return
	}
	verb := "unchanged"
	switch {
	case v.Checked:
		verb = "complete"
	case v.Written > 0 || v.Removed > 0:
		verb = "vendored"
	}
	term.Printf("%s  %s in %s, %s\n", term.Stdout.Paint(cli.RoleGood, verb, term.Ascii),
		fault.Count(int64(v.Objects), "object"), fault.Count(int64(v.Files), "file"),
		cli.ByteSize(float64(v.Bytes)))
}

func (c *vendorRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if !c.Check {
		unlock, err := paths.Alone(ctx, app, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	lock, err := openLocked(app, !c.Check)
	if f, ok := fault.Find(err); ok && c.Check && (f.Code == fault.NotLocked || f.Code == fault.LockMismatch) {
		return nil, f.Asked() // like rye lock --check
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if c.Check {
		r, err := restore.CheckVendor(ctx, lock.Lock)
		if r == nil {
			return nil, err
		}
		for _, path := range r.Foreign {
			app.Term.Warn("%s was not written by rye and is left alone", path)
		}
		return VendorAnswer{r, err != nil}, err
	}
	fetched, err := fetch(ctx, lock)
	if err != nil {
		return nil, err
	}
	p := lock.App.Progress("vendoring", 0)
	defer p.Done()
	r, err := restore.Vendor(ctx, lock.Lock, fetched)
	if err != nil {
		return nil, err
	}
	return VendorAnswer{VendorResult: r}, nil
}
