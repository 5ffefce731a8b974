// The command rye version.

package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/rye-build/rye/cas/disk"
)

// Version is set by the linker in a release: -ldflags "-X github.com/rye-build/rye/cmd/rye/cli.Version=1.2.3".
var Version string

// formats lists the file formats that this binary reads, as "NAME/N".
func formats() []string {
	return []string{fmt.Sprintf("store/%d", disk.Format), "tree/2", "signed/1", "signed/2", "policy/2", "manifest/2",
		"revocations/2", "rotation/2", "index/2", "lock/2", "vendor/2"}
}

// VersionRun is rye version.
type VersionRun struct{}

type versionAnswer struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Modified bool     `json:"modified,omitempty"` // built from files that differ from the commit
	Go       string   `json:"go"`
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Formats  []string `json:"formats"`
}

func (*VersionRun) Run(context.Context, *App) (Answer, error) { return ThisVersion(), nil }

// ThisVersion returns the version of this binary. Without the linker's Version it takes the module's, else "devel".
func ThisVersion() versionAnswer {
	v := versionAnswer{Version: Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Formats: formats()}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = strings.TrimPrefix(info.Main.Version, "v")
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Version == "" {
		v.Version = "devel"
	}
	return v
}

func (v versionAnswer) Text(t *Terminal) {
	t.Printf("rye %s\n", v.Version)
	if v.Commit != "" {
		commit := v.Commit[:min(12, len(v.Commit))]
		if v.Modified {
			commit += " with changes"
		}
		t.Printf("commit %s\n", commit)
	}
	t.Printf("%s %s/%s\n", v.Go, v.OS, v.Arch)
	if len(v.Formats) > 0 {
		t.Printf("reads %s\n", strings.Join(v.Formats, " "))
	}
}
