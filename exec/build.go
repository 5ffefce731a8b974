package exec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/exec/env"
)

// BuildEpoch is SOURCE_DATE_EPOCH for build steps: the first second that zip archives can hold.
const BuildEpoch = 315532800

// BuildEnv returns the variables that every step of a build has, in addition to those of its chain and its
// directories.
func BuildEnv() []string {
	return []string{"LANG=C.UTF-8", "SOURCE_DATE_EPOCH=" + strconv.Itoa(BuildEpoch), "TZ=UTC"}
}

// buildPath is the PATH of a step. Programs that the chain names are found by the host's, and are part of the action.
const buildPath = "/usr/local/bin:/usr/bin:/bin"

// isolate drops machine- and project-specific inputs from a build request.
func (p *Plan) isolate(request env.Request) env.Request {
	if !p.call.Build {
		return request
	}
	vars := map[string]string{}
	for name, v := range request.Host.Vars {
		if !fromUser(name) {
			vars[name] = v
		}
	}
	request.Host.Vars, request.DotEnv = vars, nil
	if request.Project != "" {
		// Nothing in the project is a program of the machine, and none of it is pinned.
		request.Forbidden = append(slices.Clone(request.Forbidden), request.Project)
		request.Project = ""
	}
	return request
}

// fromUser reports whether a variable is a user's preference.
func fromUser(name string) bool {
	return slices.Contains([]string{"LANG", "LANGUAGE", "TERM", "NO_COLOR", "TZ"}, name) ||
		strings.HasPrefix(name, "LC_")
}

// fixed adds the variables of every build step that the chain doesn't set.
func (p *Plan) fixed(vars, keys []string) []string {
	if !p.call.Build {
		return vars
	}
	named := func(list []string, name string) int {
		return slices.IndexFunc(list, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	for _, v := range BuildEnv() {
		if name, _, _ := strings.Cut(v, "="); named(vars, name) < 0 {
			vars = append(vars, v)
		}
	}
	if i := named(vars, "PATH"); i >= 0 && !slices.Contains(keys, "PATH") && strings.HasPrefix(vars[i], "PATH=/") {
		vars[i] = "PATH=" + buildPath
	}
	slices.Sort(vars)
	return vars
}
