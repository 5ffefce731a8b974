// The command rye version.

package cli

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/disk"
)

// Version is set by the linker in a build from a source archive, which has no git to take it from:
// -ldflags "-X github.com/rye-build/rye/cmd/rye/cli.Version=1.2.3". A release takes it from its tag.
var Version string

// formats lists the file formats that this binary reads, as "NAME/N".
func formats() []string {
	return []string{fmt.Sprintf("store/%d", disk.Format), "tree/2", "signed/1", "signed/2", "policy/2", "manifest/2",
		"revocations/2", "rotation/2", "index/2", "lock/2", "vendor/2"}
}

const versionHelp = `It prints the version, the commit, the version of Go, and the settings of the build.
A release is built from a clean commit with a release's tag, with the settings
of all releases: anyone can build the same bytes again (see rye docs install).

Examples:

    rye version
    rye version --json`

// VersionRun is rye version.
type VersionRun struct{}

type versionAnswer struct {
	Version  string   `json:"version"`
	Release  bool     `json:"release"` // built from a release's tag, as testdata/release builds
	Commit   string   `json:"commit,omitempty"`
	Time     string   `json:"commit_time,omitempty"`
	Modified bool     `json:"modified,omitempty"` // built from files that differ from the commit
	Go       string   `json:"go"`
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Settings []string `json:"settings"` // NAME=VALUE, as the go command recorded them
	Formats  []string `json:"formats"`
}

func (*VersionRun) Run(context.Context, *App) (Answer, error) { return ThisVersion(), nil }

// ThisVersion returns the version of this binary and how it was built.
func ThisVersion() versionAnswer {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return versionOf(info, Version)
}

// releaseSettings are the settings that every release has.
var releaseSettings = []string{"-trimpath=true", "-tags=netgo,osusergo", "CGO_ENABLED=0"}

// untagged matches the end of the version that the go command gives a commit without a tag, or a changed tree.
var untagged = regexp.MustCompile(`[.-][0-9]{14}-[0-9a-f]{12}(\+dirty)?$|\+dirty$`)

// versionOf reads what the go command recorded. Without the linker's version the module's counts, else "devel".
func versionOf(info *debug.BuildInfo, linked string) versionAnswer {
	answer := versionAnswer{Version: linked, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Settings: []string{}, Formats: formats()}
	tagged := false
	if linked == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		answer.Version = strings.TrimPrefix(info.Main.Version, "v")
		tagged = !untagged.MatchString(answer.Version)
	}
	if answer.Version == "" {
		answer.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			answer.Commit = s.Value
		case "vcs.time":
			answer.Time = s.Value
		case "vcs.modified":
			answer.Modified = s.Value == "true"
		case "vcs", "GOOS", "GOARCH", "-compiler", "-buildmode":
		default:
			answer.Settings = append(answer.Settings, s.Key+"="+s.Value)
		}
	}
	answer.Release = tagged && answer.Commit != "" && !answer.Modified &&
		!slices.ContainsFunc(releaseSettings, func(s string) bool { return !slices.Contains(answer.Settings, s) })
	return answer
}

func (v versionAnswer) Text(term *Terminal) {
	term.Printf("%s %s\n", program.Name, v.Version)
	if v.Commit != "" {
		commit := v.Commit[:min(12, len(v.Commit))]
		if v.Time != "" {
			commit += " of " + v.Time
		}
		if v.Modified {
			commit += " with changes"
		}
		term.Printf("commit %s\n", commit)
	}
	term.Printf("%s %s/%s\n", v.Go, v.OS, v.Arch)
	kind := "not a release"
	if v.Release {
		kind = "release"
	}
	term.Printf("%s\n", strings.Join(append([]string{kind + ", built with"}, v.Settings...), " "))
	if len(v.Formats) > 0 {
		term.Printf("reads %s\n", strings.Join(v.Formats, " "))
	}
}
