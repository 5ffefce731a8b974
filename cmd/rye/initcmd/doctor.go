// The command rye doctor: its list of checks, and those about the machine.

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

// A doctorCheck is one check. It changes nothing, but may create rye's own directories.
type doctorCheck struct {
	name string
	run  func(context.Context, *cli.App) paths.Finding
}

// checks returns the checks in the order in which they run and print.
func checks() []doctorCheck {
	return []doctorCheck{
		{"version", checkVersion},
		{"variables", checkVariables},
		{"project", checkProject},
		{"home", checkHome},
		{"data", checkPlace("data", cli.DataPlace)},
		{"state", checkPlace("state", cli.StatePlace)},
		{"cache", checkPlace("cache", cli.CachePlace)},
		{"disk", checkDisk},
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
	failed, causes := 0, map[string]string{} // from a problem to the check that reported it first
	for _, check := range checks() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		finding := check.run(ctx, a)
		finding.Name, finding.Hint = check.name, a.Globals.Placed(finding.Hint)
		if finding.Status == paths.StatusFail {
			failed++
		}
		if finding.Status != paths.StatusOK {
			if first, reported := causes[finding.Detail]; reported {
				finding.Detail, finding.Hint = fmt.Sprintf("the same as %q, above", first), ""
			} else {
				causes[finding.Detail] = check.name
			}
		}
		ans.Checks = append(ans.Checks, finding)
	}
	if failed > 0 {
		finding := fault.New(fault.Config, "%d of %d checks failed", failed, len(ans.Checks))
		return ans, finding.Answer()
	}
	return ans, nil
}

func (d doctorAnswer) Text(term *cli.Terminal) {
	width := 0
	for _, f := range d.Checks {
		width = max(width, len(f.Name))
	}
	for _, f := range d.Checks {
		colour := map[paths.Status]cli.Role{paths.StatusOK: cli.RoleGood, paths.StatusWarn: cli.RoleWarn,
			paths.StatusFail: cli.RoleError}[f.Status]
		term.Printf("%s  %s  %s\n", term.Stdout.Paint(colour, fmt.Sprintf("%-4s", f.Status), term.Ascii),
			term.Pad(f.Name, width),
			f.Detail)
		if f.Hint != "" {
			term.Printf("%s  %s\n", term.Pad("", 4), term.Stdout.Paint(cli.RoleHint, "hint: "+f.Hint, term.Ascii))
		}
	}
}

func checkVersion(context.Context, *cli.App) paths.Finding {
	v := cli.ThisVersion()
	return paths.Good("rye %s, %s %s/%s", v.Version, v.Go, v.OS, v.Arch)
}

func checkProject(_ context.Context, a *cli.App) paths.Finding {
	project, err := paths.Paths(a).OpenProject()
	switch {
	case errors.Is(err, workspace.ErrNoProject):
		return paths.Good("not in a project")
	case err != nil:
		return paths.Bad(paths.StatusFail, err)
	}
	there, err := osfile.IsDir(project.DotAI())
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	if there {
		if err := probe(workspace.MarkerDir, project.DotAI()); err != nil {
			return paths.Bad(paths.StatusWarn, err)
		}
	}
	return paths.Good("%q, by its %s", project.Root, project.Marker)
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

// checkPlace returns a check that rye's directory of a kind can be created and written to.
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
	setting := a.Store()
	if setting.Err != nil {
		return paths.Bad(paths.StatusFail, setting.Err)
	}
	opened, err := disk.Open(setting.Value, disk.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return paths.Good("%q, created at first use", setting.Value)
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
	return paths.Good("%q, %s, %s", setting.Value, fault.Count(int64(size.Packs), "pack"),
		cli.ByteSize(float64(size.Bytes)))
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

// checkClock fails for a clock that is obviously wrong, because expiries and signature times would be wrong too.
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
