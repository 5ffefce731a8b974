package initcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/cmd/rye/secrets"
	"github.com/rye-build/rye/cmd/rye/serves"
	"github.com/rye-build/rye/lock/workspace"
)

type doctorRun struct{}

// A doctorCheck looks at one thing. It changes nothing, but may create rye's own directories.
type doctorCheck struct {
	name string
	run  func(context.Context, *cli.App) paths.Finding
}

// checks lists the checks in their order.
func checks() []doctorCheck {
	return []doctorCheck{
		{"version", checkVersion},
		{"variables", checkVariables},
		{"project", checkProject},
		{"home", checkHome},
		{"data", checkPlace("data", cli.DataPlace)},
		{"state", checkPlace("state", cli.StatePlace)},
		{"cache", checkPlace("cache", cli.CachePlace)},
		{"store", checkStore},
		{"keys", checkKeys},
		{"policy", CheckPolicy},
		{"library", checkLibrary},
		{"items", checkItems},
		{"bundles", checkBundles},
		{"lock", checkLock},
		{"vendor", checkVendor},
		{"sandbox", checkSandbox},
		{"interpreters", checkInterpreters},
		{"audit", checkAudit}, {"secrets", secrets.CheckSecrets},
		{"providers", runs.CheckProviders}, {"agents", serves.CheckAgents}, {"tokens", serves.CheckTokens},
		{"terminal", checkTerminal}, {"clock", checkClock},
	}
}

type doctorAnswer struct {
	Checks []paths.Finding `json:"checks"`
}

func (*doctorRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	var ans doctorAnswer
	failed, causes := 0, map[string]string{} // what is wrong, and which check says so
	for _, c := range checks() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := c.run(ctx, a)
		f.Name, f.Hint = c.name, a.Globals.Placed(f.Hint)
		if f.Status == paths.StatusFail {
			failed++
		}
		if f.Status != paths.StatusOK {
			if first, told := causes[f.Detail]; told {
				f.Detail, f.Hint = fmt.Sprintf("the same as %q, above", first), ""
			} else {
				causes[f.Detail] = c.name
			}
		}
		ans.Checks = append(ans.Checks, f)
	}
	if failed > 0 {
		f := fault.New(fault.Config, "%d of %d checks failed", failed, len(ans.Checks))
		return ans, f.Asked()
	}
	return ans, nil
}

func (d doctorAnswer) Text(t *cli.Terminal) {
	width := 0
	for _, f := range d.Checks {
		width = max(width, len(f.Name))
	}
	for _, f := range d.Checks {
		colour := map[paths.Status]cli.Role{paths.StatusOK: cli.RoleGood, paths.StatusWarn: cli.RoleWarn,
			paths.StatusFail: cli.RoleError}[f.Status]
		t.Printf("%s  %s  %s\n", t.Stdout.Paint(colour, fmt.Sprintf("%-4s", f.Status), t.Ascii), t.Pad(f.Name, width),
			f.Detail)
		if f.Hint != "" {
			t.Printf("%s  %s\n", t.Pad("", 4), t.Stdout.Paint(cli.RoleHint, "hint: "+f.Hint, t.Ascii))
		}
	}
}

func checkVersion(context.Context, *cli.App) paths.Finding {
	v := cli.ThisVersion()
	return paths.Good("rye %s, %s %s/%s", v.Version, v.Go, v.OS, v.Arch)
}

func checkProject(_ context.Context, a *cli.App) paths.Finding {
	p, err := paths.Paths(a).OpenProject()
	switch {
	case errors.Is(err, workspace.ErrNoProject):
		return paths.Good("not in a project")
	case err != nil:
		return paths.Bad(paths.StatusFail, err)
	}
	there, err := osfile.IsDir(p.DotAI())
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	if there {
		if err := probe(workspace.MarkerDir, p.DotAI()); err != nil {
			return paths.Bad(paths.StatusWarn, err)
		}
	}
	return paths.Good("%q, by its %s", p.Root, p.Marker)
}

func checkHome(_ context.Context, a *cli.App) paths.Finding {
	s := a.Home()
	if s.Err != nil {
		return paths.Bad(paths.StatusWarn, s.Err)
	}
	if err := writable("home", s); err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	return paths.Good("%q", s.Value)
}

func checkPlace(name string, p cli.Place) func(context.Context, *cli.App) paths.Finding {
	return func(_ context.Context, a *cli.App) paths.Finding {
		s := a.Dir(p)
		if err := writable(name, s); err != nil {
			return paths.Bad(paths.StatusFail, err)
		}
		return paths.Good("%q", s.Value)
	}
}

func checkStore(_ context.Context, a *cli.App) paths.Finding {
	s := a.Store()
	if s.Err != nil {
		return paths.Bad(paths.StatusFail, s.Err)
	}
	opened, err := disk.Open(s.Value, disk.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return paths.Good("%q, created at first use", s.Value)
	}
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	defer opened.Close()
	size, err := opened.Stat()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	if size.Damaged > 0 {
		return paths.Finding{Status: paths.StatusWarn,
			Detail: fmt.Sprintf("%s without a readable index, of %d", fault.Count(int64(size.Damaged), "pack"),
				size.Packs), Hint: "rye store reindex"}
	}
	return paths.Good("%q, %s, %s", s.Value, fault.Count(int64(size.Packs), "pack"), cli.ByteSize(float64(size.Bytes)))
}

func checkTerminal(_ context.Context, a *cli.App) paths.Finding {
	characters := "UTF-8"
	if a.Term.Ascii {
		characters = "ASCII, other characters are shown escaped"
	}
	if !a.Term.Stdout.Tty {
		return paths.Good("none on standard output; %s", characters)
	}
	return paths.Good("%s; colour: %s", characters, colorSetting(a).Origin)
}

// checkClock finds a clock that would make expiries and signature times wrong.
func checkClock(_ context.Context, a *cli.App) paths.Finding {
	now := a.Now()
	if a.Env("SOURCE_DATE_EPOCH") != "" {
		return paths.Good("fixed at %s by SOURCE_DATE_EPOCH", a.Clock().Format(time.RFC3339))
	}
	if now.Year() < 2025 || now.Year() > 2100 {
		return paths.Finding{Status: paths.StatusFail,
			Detail: fmt.Sprintf("the clock says %s", now.UTC().Format(time.RFC3339)), Hint: "date"}
	}
	return paths.Good("%s", now.UTC().Format(time.RFC3339))
}
