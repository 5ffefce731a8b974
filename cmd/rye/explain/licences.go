package explain

import (
	"context"
	"strconv"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/exec/packages"
)

type licencesRun struct {
	Deny []string `placeholder:"GLOB" sep:"none" help:"Fail if a licence matches GLOB (repeatable)."`
	sarif.Flag
}

type licencesAnswer struct {
	Lock     string             `json:"lock"`
	Licences []packages.Licence `json:"licences"`
	Denied   int                `json:"denied"`
}

func (l *licencesAnswer) Text(term *cli.Terminal) {
	var rows [][]string
	for _, e := range l.Licences {
		text := e.Licence
		if e.Declared != "" {
			text += "  " + strconv.Quote(e.Declared)
		}
		rows = append(rows, []string{e.Name, e.Version, text + denied(e, "  ")})
	}
	term.Rows(rows)
	if len(l.Licences) == 0 {
		term.Note("the lock has no bundles and no packages")
	}
}

// Extent, Findings and Table provide the content of the other formats (package sarif).
func (l *licencesAnswer) Extent() string { return fault.Count(int64(len(l.Licences)), "licence") }

func (l *licencesAnswer) Findings() (all []sarif.Finding) {
	for _, e := range l.Licences {
		if e.Denied {
			all = append(all, sarif.Finding{Code: fault.Policy, Level: sarif.Error, File: l.Lock, Line: e.Line,
				Name: e.Name, Message: "denied licence: " + e.Text()})
		}
	}
	return all
}

func (l *licencesAnswer) Table() ([]string, [][]string) {
	var rows [][]string
	for _, e := range l.Licences {
		rows = append(rows, []string{sarif.Code(e.Name), sarif.Code(e.Version), sarif.Code(e.Licence),
			sarif.Code(e.Declared), denied(e, "")})
	}
	return []string{"name", "version", "licence", "declared", ""}, rows
}

func denied(e packages.Licence, space string) string {
	if !e.Denied {
		return ""
	}
	return space + "denied"
}

func (c *licencesRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.Render(a, "licences", func() (cli.Answer, error) { return c.list(ctx, a) })
}

func (c *licencesRun) list(ctx context.Context, a *cli.App) (cli.Answer, error) {
	locked, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer locked.Close()
	if err := locked.NeedLock(); err != nil {
		return nil, err
	}
	set, err := locked.Set(ctx)
	if err != nil {
		return nil, err
	}
	ans := &licencesAnswer{Lock: locked.LockPath()}
	if ans.Licences, err = packages.LicencesOf(ctx, set, locked.Old, locked.Text()); err != nil {
		return nil, err
	}
	if ans.Denied, err = packages.DenyLicences(ans.Licences, c.Deny); err != nil {
		return nil, err
	}
	if no := packages.RefusedLicences(ans.Licences); no != nil {
		return ans, no
	}
	return ans, nil
}
