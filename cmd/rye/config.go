package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
)

func configCommand() command {
	return command{
		path: "config", group: "start", help: "Show every effective setting.",
		more: "A flag counts over a variable of the environment, and that over the default.\n\n" +
			"Examples:\n\n    rye config\n    rye config --explain",
		aka: []string{"settings", "env"},
		new: func() runner { return new(configRun) }, schema: "config/1", output: configAnswer{},
	}
}

type configRun struct {
	Explain bool `help:"Say where each value comes from, and what sets it."`
}

type configAnswer struct {
	Settings []configLine `json:"settings"`
	explain  bool
}

type configLine struct {
	Name   string   `json:"name"`
	Value  string   `json:"value"`
	Origin string   `json:"origin"`
	SetBy  []string `json:"set_by"` // what could set it, the strongest first
}

func (c *configRun) run(_ context.Context, a *app) (answer, error) {
	ans := configAnswer{explain: c.Explain}
	add := func(name string, s setting, setBy ...string) {
		if s.err != nil {
			s.value, s.origin = "", classify(s.err).Text
		}
		ans.Settings = append(ans.Settings, configLine{name, s.value, s.origin, setBy})
	}
	add("project", a.projectSetting(), "--project")
	add("store", a.store(), "--store", "RYE_STORE", "XDG_DATA_HOME")
	add("user", userSpace(a.userBase()), "USER_SPACE", "HOME")
	add("spaces", a.spacesSetting(), markerFile, "--project", "USER_SPACE", "HOME")
	add("trust", a.trustSetting(), "--trust", envTrust, "USER_SPACE", "HOME")
	add("key", a.keySetting(), "--key", envKey, "rye key new")
	add("passphrase", a.secretSetting(envPassphrase, "asked for"), envPassphrase)
	add("data", a.dir(dataPlace), "XDG_DATA_HOME", "HOME")
	add("state", a.dir(statePlace), "XDG_STATE_HOME", "HOME")
	add("cache", a.dir(cachePlace), "XDG_CACHE_HOME", "HOME")
	add("time", a.timeSetting(), "SOURCE_DATE_EPOCH")
	add("color", a.colorSetting(), "--no-color", "NO_COLOR", "CLICOLOR_FORCE", "TERM")
	add("progress", a.progressSetting(), "TERM", "CI")
	add("offline", a.offline(), "--offline", envOffline)
	add("yes", flagSetting(a.globals.Yes, "--yes"), "--yes")
	add("json", flagSetting(a.globals.JSON, "--json"), "--json")
	add("quiet", flagSetting(a.globals.Quiet, "--quiet"), "--quiet")
	add("verbose", flagSetting(a.globals.Verbose, "--verbose"), "--verbose")
	add("debug", flagSetting(a.globals.Debug, "--debug"), "--debug")
	return ans, nil
}

func (c configAnswer) text(t *terminal) {
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
	t.rows(rows)
}

func flagSetting(on bool, flag string) setting {
	s := setting{value: strconv.FormatBool(on), origin: "default"}
	if on {
		s.origin = flag
	}
	return s
}

// userSpace is the space of a user base.
func userSpace(base setting) setting {
	if base.err == nil {
		base.value = filepath.Join(base.value, markerDir)
	}
	return base
}

// projectSetting is the project, or why there is none.
func (a *app) projectSetting() setting {
	p, err := a.project()
	switch {
	case errors.Is(err, errNoProject):
		return setting{origin: "none here or above"}
	case err != nil:
		return setting{err: err}
	case p.named:
		return setting{value: p.root, origin: "--project"}
	}
	return setting{value: p.root, origin: p.marker}
}

// spacesSetting is where items are looked for, the first first.
func (a *app) spacesSetting() setting {
	var labels []string
	s := setting{origin: "outside of projects"}
	p, err := a.project()
	switch {
	case err != nil && !errors.Is(err, errNoProject):
		return setting{err: err}
	case err == nil:
		labels = append(labels, ai.Project.String())
		s.origin = p.marker
	}
	switch {
	case p.marker == markerFile:
		s.origin += ": the user space does not count"
	case a.userBase().err == nil:
		labels = append(labels, ai.User.String())
	}
	s.value = strings.Join(append(labels, stdLabel), " ")
	return s
}

func (a *app) timeSetting() setting {
	if a.env("SOURCE_DATE_EPOCH") == "" {
		return setting{value: "now", origin: "default"}
	}
	return setting{value: a.clock().Format(time.RFC3339), origin: "SOURCE_DATE_EPOCH"}
}

func (a *app) colorSetting() setting {
	s := setting{value: strconv.FormatBool(a.term.stdout.color)}
	force := a.env("CLICOLOR_FORCE")
	switch {
	case a.globals.NoColor:
		s.origin = "--no-color"
	case a.env("NO_COLOR") != "":
		s.origin = "NO_COLOR"
	case force != "" && force != "0":
		s.origin = "CLICOLOR_FORCE"
	case !a.term.stdout.tty:
		s.origin = "not a terminal"
	case a.env("TERM") == "dumb":
		s.origin = "TERM"
	default:
		s.origin = "default"
	}
	return s
}

func (a *app) progressSetting() setting {
	s := setting{value: strconv.FormatBool(a.term.live)}
	switch {
	case !a.term.stderr.tty:
		s.origin = "not a terminal"
	case a.env("TERM") == "dumb":
		s.origin = "TERM"
	case a.env("CI") != "":
		s.origin = "CI"
	default:
		s.origin = "default"
	}
	return s
}
