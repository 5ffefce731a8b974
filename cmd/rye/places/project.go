package places

import (
	"errors"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/workspace"
)

// Paths turns flags and environment into the paths of a workspace.
func Paths(a *cli.App) (workspace.Paths, error) {
	dir := a.Absolute(cli.Setting{Value: a.Package, Origin: "--package"})
	p := workspace.Paths{
		Dir: dir.Value, Named: a.Globals.Project != "", Package: a.Package != "", Version: Running(), PolicyID: a.Env(cli.EnvTrust),
		User: place(a.UserBase()), Store: place(a.Store()), State: place(a.Dir(cli.StatePlace)), Cache: place(a.Dir(cli.CachePlace)),
	}
	if a.Globals.Trust != "" {
		p.Policy = place(a.Absolute(cli.Setting{Value: a.Globals.Trust, Origin: workspace.PolicyFlag}))
	}
	return p, dir.Err
}

func place(s cli.Setting) workspace.Place {
	return workspace.Place{Path: s.Value, Origin: s.Origin, Err: s.Err}
}

// OpenProject returns the project of this command, with a valid rye.yaml.
func OpenProject(a *cli.App) (workspace.Project, error) {
	p, err := Paths(a)
	if err != nil {
		return workspace.Project{}, err
	}
	return p.OpenProject()
}

// FindProject returns the project of this command, whatever its rye.yaml says.
func FindProject(a *cli.App) (workspace.Project, error) {
	p, err := Paths(a)
	if err != nil {
		return workspace.Project{}, err
	}
	return p.FindProject()
}

// Running is the version that a rye.yaml is held against. A build that isn't a release is new enough for all.
func Running() string {
	if v := cli.ThisVersion().Version; cli.Version != "" || isRelease(v) {
		return v
	}
	return "devel"
}

// isRelease reports whether a version is three numbers. The pseudo-version of a commit is older than any release.
func isRelease(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) && strings.Count(v, ".") == 2
}

// ProjectSetting is the project, or why there is none.
func ProjectSetting(a *cli.App) cli.Setting {
	p, err := OpenProject(a)
	switch {
	case errors.Is(err, workspace.ErrNoProject):
		return cli.Setting{Origin: "none here or above"}
	case err != nil:
		return cli.Setting{Err: err}
	}
	return cli.Setting{Value: p.Root, Origin: p.Marker}
}
