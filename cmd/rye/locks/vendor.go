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

func (v VendorAnswer) Text(t *cli.Terminal) {
	for _, p := range v.Problems {
		t.Printf("%s\n", p)
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
	t.Printf("%s  %s in %s, %s\n", t.Stdout.Paint(cli.RoleGood, verb, t.Ascii),
		fault.Count(int64(v.Objects), "object"), fault.Count(int64(v.Files), "file"),
		cli.ByteSize(float64(v.Bytes)))
}

func (c *vendorRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if !c.Check {
		unlock, err := paths.Alone(ctx, a, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	l, err := openLocked(a, !c.Check)
	if f, ok := fault.Find(err); ok && c.Check && (f.Code == fault.NotLocked || f.Code == fault.LockMismatch) {
		return nil, f.Asked() // like rye lock --check
	}
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if c.Check {
		r, err := restore.CheckVendor(ctx, l.Lock)
		if r == nil {
			return nil, err
		}
		for _, path := range r.Foreign {
			a.Term.Warn("%s was not written by rye and is left alone", path)
		}
		return VendorAnswer{r, err != nil}, err
	}
	fetched, err := fetch(ctx, l)
	if err != nil {
		return nil, err
	}
	p := l.App.Progress("vendoring", 0)
	defer p.Done()
	r, err := restore.Vendor(ctx, l.Lock, fetched)
	if err != nil {
		return nil, err
	}
	return VendorAnswer{VendorResult: r}, nil
}
