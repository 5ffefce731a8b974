package initcmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/workspace"
)

type configRun struct {
	Explain bool `help:"Show where each value comes from and what sets it."`
}

type configAnswer struct {
	Settings []configLine `json:"settings"`
	explain  bool
}

type configLine struct {
	Name   string   `json:"name"`
	Value  string   `json:"value"`
	Origin string   `json:"origin"`
	SetBy  []string `json:"set_by"` // flags, variables and files that can set it, strongest first
}

func (c *configRun) Run(_ context.Context, app *cli.App) (cli.Answer, error) {
	ans := configAnswer{explain: c.Explain}
	add := func(name string, s cli.Setting, setBy ...string) {
		if s.Err != nil {
			s.Value, s.Origin = "", fault.Of(s.Err).Text
		}
		ans.Settings = append(ans.Settings, configLine{name, s.Value, s.Origin, setBy})
	}
	add("project", paths.ProjectSetting(app), "--project")
	add("store", app.Store(), "--store", "RYE_STORE", "XDG_DATA_HOME")
	add("user", cli.UserSpace(app.UserBase()), "USER_SPACE", "HOME")
	add("spaces", spacesSetting(app), workspace.MarkerFile, "--project", "USER_SPACE", "HOME")
	add("trust", paths.TrustSetting(app), "--trust", cli.EnvTrust, "USER_SPACE", "HOME")
	add("key", trusts.KeySetting(app), "--key", cli.EnvKey, "rye key new")
	add("passphrase", paths.SecretSetting(app, cli.EnvPassphrase, "asked for"), cli.EnvPassphrase)
	add("data", app.Dir(cli.DataPlace), "XDG_DATA_HOME", "HOME")
	add("state", app.Dir(cli.StatePlace), "XDG_STATE_HOME", "HOME")
	add("cache", app.Dir(cli.CachePlace), "XDG_CACHE_HOME", "HOME")
	add("time", timeSetting(app), "SOURCE_DATE_EPOCH")
	add("color", colorSetting(app), "--no-color", "NO_COLOR", "CLICOLOR_FORCE", "TERM")
	add("progress", progressSetting(app), "TERM", "CI")
	add("offline", app.Offline(), "--offline", cli.EnvOffline)
	add("mirrors", paths.MirrorSetting(app), cli.EnvMirrors)
	add("yes", flagSetting(app.Globals.Yes, "--yes"), "--yes")
	add("json", flagSetting(app.Globals.JSON, "--json"), "--json")
	add("quiet", flagSetting(app.Globals.Quiet, "--quiet"), "--quiet")
	add("verbose", flagSetting(app.Globals.Verbose, "--verbose"), "--verbose")
	add("debug", flagSetting(app.Globals.Debug, "--debug"), "--debug")
	return ans, nil
}

func (c configAnswer) Text(term *cli.Terminal) {
	var rows [][]string
	for _, s := range c.Settings {
		row := []string{s.Name, s.Value}
		if s.Value == "" {
			row[1] = "-"
		}
		switch {
		case c.explain:
			row = append(row, s.Origin)
		case s.Value == "":
			row[1] = "- (" + s.Origin + ")"
		}
		rows = append(rows, row)
	}
	term.Rows(rows)
}

func flagSetting(on bool, flag string) cli.Setting {
	s := cli.Setting{Value: strconv.FormatBool(on), Origin: "default"}
	if on {
		s.Origin = flag
	}
	return s
}

// spacesSetting lists the spaces in the order in which rye searches them for items.
func spacesSetting(app *cli.App) cli.Setting {
	var labels []string
	setting := cli.Setting{Origin: "outside projects"}
	p, err := paths.Paths(app).OpenProject()
	switch {
	case err != nil && !errors.Is(err, workspace.ErrNoProject):
		return cli.Setting{Err: err}
	case err == nil:
		labels = append(labels, ai.Project.String())
		setting.Origin = p.Marker
	}
	switch {
	case p.Marker == workspace.MarkerFile:
		setting.Origin += ": the user space is not used"
	case app.UserBase().Err == nil:
		labels = append(labels, ai.User.String())
	}
	setting.Value = strings.Join(append(labels, cli.StdLabel), " ")
	return setting
}

func timeSetting(a *cli.App) cli.Setting {
	if a.Env("SOURCE_DATE_EPOCH") == "" {
		return cli.Setting{Value: "now", Origin: "default"}
	}
	return cli.Setting{Value: a.Clock().Format(time.RFC3339), Origin: "SOURCE_DATE_EPOCH"}
}

func colorSetting(app *cli.App) cli.Setting {
	setting := cli.Setting{Value: strconv.FormatBool(app.Term.Stdout.Color)}
	force := app.Env("CLICOLOR_FORCE")
	switch {
	case app.Globals.NoColor:
		setting.Origin = "--no-color"
	case app.Env("NO_COLOR") != "":
		setting.Origin = "NO_COLOR"
	case force != "" && force != "0":
		setting.Origin = "CLICOLOR_FORCE"
	case !app.Term.Stdout.Tty:
		setting.Origin = "not a terminal"
	case app.Env("TERM") == "dumb":
		setting.Origin = "TERM"
	default:
		setting.Origin = "default"
	}
	return setting
}

func progressSetting(a *cli.App) cli.Setting {
	setting := cli.Setting{Value: strconv.FormatBool(a.Term.Live)}
	switch {
	case !a.Term.Stderr.Tty:
		setting.Origin = "not a terminal"
	case a.Env("TERM") == "dumb":
		setting.Origin = "TERM"
	case a.Env("CI") != "":
		setting.Origin = "CI"
	default:
		setting.Origin = "default"
	}
	return setting
}
