package paths

import (
	"errors"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/workspace"
)

// Paths returns the paths of a workspace, from flags and environment.
func Paths(a *cli.App) *workspace.Paths {
	dir := a.Absolute(cli.Setting{Value: a.Package})
	p := &workspace.Paths{
		Dir: dir.Value, NoDir: dir.Err, Named: a.Globals.Project != "", Package: a.Package != "", Version: Running(),
		PolicyID: a.Env(cli.EnvTrust),
		User:     place(a.UserBase()), Store: place(a.Store()), State: place(a.Dir(cli.StatePlace)),
		Cache: place(a.Dir(cli.CachePlace)),
	}
	if a.Globals.Trust != "" {
		p.Policy = place(a.Absolute(cli.Setting{Value: a.Globals.Trust, Origin: workspace.PolicyFlag}))
	}
	return p
}

func place(s cli.Setting) workspace.Place {
	return workspace.Place{Path: s.Value, Origin: s.Origin, Err: s.Err}
}

// Running returns the version that is compared with rye.yaml's minimum. A build that isn't a release satisfies every
// minimum.
func Running() string {
	if v := cli.ThisVersion().Version; cli.Version != "" || IsRelease(v) {
		return v
	}
	return "devel"
}

// IsRelease reports whether a version is three numbers. The pseudo-version of a commit is older than any release.
func IsRelease(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) &&
		strings.Count(v, ".") == 2
}

// ProjectSetting returns the project, or the reason why there is none.
func ProjectSetting(a *cli.App) cli.Setting {
	p, err := Paths(a).OpenProject()
	switch {
	case errors.Is(err, workspace.ErrNoProject):
		return cli.Setting{Origin: "none here or above"}
	case err != nil:
		return cli.Setting{Err: err}
	}
	return cli.Setting{Value: p.Root, Origin: p.Marker}
}
