package spaces

import (
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

// plugins returns the directories of plugins among arguments, and the other arguments. Without arguments it returns
// the plugin that the working directory is in.
func plugins(a *cli.App, texts []string) (dirs, others []string) {
	for _, text := range texts {
		at := a.Absolute(cli.Setting{Value: text})
		if at.Err == nil && plugin.Is(os.DirFS(at.Value)) {
			dirs = append(dirs, at.Value)
		} else {
			others = append(others, text)
		}
	}
	if len(texts) == 0 {
		if dir := find.PluginDir(paths.Paths(a).Dir); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs, others
}

// alone reports whether a plugin isn't in a project, so that there are no other items to check.
func alone(a *cli.App, dirs []string) bool {
	_, err := paths.Paths(a).FindProject()
	return len(dirs) > 0 && err != nil
}

// checkPlugin checks a plugin by the rules of its format, and returns the number of its parts.
func checkPlugin(a *cli.App, dir string) (parts int, problems []check.Problem, err error) {
	p, done, err := find.ReadPlugin(dir)
	if err != nil {
		return 0, nil, err
	}
	defer done()
	shown := filepath.ToSlash(paths.FromHere(a, dir))
	for i := range p.Problems {
		found := &p.Problems[i]
		severity := check.Warning
		if found.Invalid() {
			severity = check.Error
		}
		problems = append(problems, check.Problem{Severity: severity, Code: fault.Validation, Space: "plugin",
			File: path.Join(shown, found.Path), Line: found.At.Line, Column: found.At.Column, Field: found.Part,
			Message: found.Message + " (" + found.Rule() + ")"})
	}
	skipped := slices.DeleteFunc(slices.Clone(p.Problems), func(found plugin.Problem) bool { return found.Part == "" })
	return len(p.Skills) + len(p.Servers) + len(skipped), problems, nil
}
