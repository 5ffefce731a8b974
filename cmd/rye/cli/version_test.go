package cli

import (
	"runtime/debug"
	"slices"
	"testing"
)

// TestVersionOf: only a binary that a release's tag was built into, with a release's settings, calls itself a release.
func TestVersionOf(t *testing.T) {
	settings := func(changes ...string) []debug.BuildSetting {
		all := []debug.BuildSetting{{Key: "-buildmode", Value: "exe"}, {Key: "-tags", Value: "netgo,osusergo"},
			{Key: "-trimpath", Value: "true"}, {Key: "CGO_ENABLED", Value: "0"}, {Key: "GOOS", Value: "linux"},
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "48de98edce59f7b6f7b67dd2504fa21a5246af48"},
			{Key: "vcs.time", Value: "2026-11-29T11:32:27Z"}, {Key: "vcs.modified", Value: "false"}}
		for i := 0; i < len(changes); i += 2 {
			all = slices.DeleteFunc(all, func(s debug.BuildSetting) bool { return s.Key == changes[i] })
			if changes[i+1] != "" {
				all = append(all, debug.BuildSetting{Key: changes[i], Value: changes[i+1]})
			}
		}
		return all
	}
	for _, test := range []struct {
		name, module, linked, version string
		settings                      []debug.BuildSetting
		release                       bool
	}{
		{"tag", "v1.4.0", "", "1.4.0", settings(), true},
		{"tag of a candidate", "v1.4.0-rc.1", "", "1.4.0-rc.1", settings(), true},
		{"commit behind a tag", "v1.4.1-0.20261129113227-48de98edce59", "", "1.4.1-0.20261129113227-48de98edce59",
			settings(), false},
		{"commit without a tag", "v0.0.0-20261129113227-48de98edce59", "", "0.0.0-20261129113227-48de98edce59",
			settings(), false},
		{"changed files", "v1.4.0+dirty", "", "1.4.0+dirty", settings("vcs.modified", "true"), false},
		{"changed files, said only there", "v1.4.0", "", "1.4.0", settings("vcs.modified", "true"), false},
		{"go install", "v1.4.0", "", "1.4.0", settings("vcs.revision", ""), false},
		{"with paths", "v1.4.0", "", "1.4.0", settings("-trimpath", ""), false},
		{"with C", "v1.4.0", "", "1.4.0", settings("CGO_ENABLED", "1"), false},
		{"other tags", "v1.4.0", "", "1.4.0", settings("-tags", "netgo"), false},
		{"linker's version", "(devel)", "1.4.0", "1.4.0", nil, false},
		{"linker's version over a tag", "v1.3.0", "1.4.0", "1.4.0", settings(), false},
		{"nothing known", "", "", "devel", nil, false},
		{"no version", "(devel)", "", "devel", settings(), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Version: test.module}, Settings: test.settings}
			got := versionOf(info, test.linked)
			if got.Version != test.version || got.Release != test.release {
				t.Errorf("version %q, release %v; want %q, %v", got.Version, got.Release, test.version,
					test.release)
			}
		})
	}
	got := versionOf(&debug.BuildInfo{Settings: settings()}, "")
	want := []string{"-tags=netgo,osusergo", "-trimpath=true", "CGO_ENABLED=0"}
	if got.Time != "2026-11-29T11:32:27Z" || !slices.Equal(got.Settings, want) {
		t.Errorf("settings %q of %q", got.Settings, got.Time)
	}
}
