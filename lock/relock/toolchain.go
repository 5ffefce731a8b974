package relock

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
)

// A Toolchain finds the programs of the machine that chains would start. What a program is, is
// decided by the code that starts it: this package knows names and digests.
type Toolchain interface {
	// Platform is that of this machine, as in linux/amd64.
	Platform() string
	// Programs returns what the chains of tools would start here, in any order and as often as it is found: names by
	// lock.ProgramName. What is missing is returned separately; any other error ends it.
	Programs(ctx context.Context, view *ai.View, tools []model.Ref) (found []file.Program, missing []error, err error)
}

// toolchain returns the lines of programs: those of other platforms as they were, and those of this one. Where
// something isn't on this machine its lines stay, since another machine of the platform has made them.
func (r *Request) toolchain(ctx context.Context, m *Made, view *ai.View) ([]file.Program, error) {
	if r.Toolchain == nil {
		return r.Old.Toolchain, nil
	}
	var tools []model.Ref
	for i := range m.Closure.Pins {
		if ref := m.Closure.Pins[i].Ref; ref.Kind == "tool" {
			tools = append(tools, ref)
		}
	}
	found, missing, err := r.Toolchain.Programs(ctx, view, tools)
	if err != nil {
		return nil, err
	}
	m.Unfound = missing
	here := r.Toolchain.Platform()
	lines := named(found, here)
	for _, old := range r.Old.Toolchain {
		is := func(p file.Program) bool { return lock.PlainName(p.Name) == lock.PlainName(old.Name) }
		if old.Platform != here || len(missing) > 0 && !slices.ContainsFunc(lines, is) {
			lines = append(lines, old)
		}
	}
	return lines, nil
}

// apart is how much of a digest tells programs of one name apart.
const apart = 12

// named gives each program once, under a name of its own.
func named(found []file.Program, platform string) []file.Program {
	of := map[string]map[cas.Digest]string{}
	for _, p := range found {
		if of[p.Name] == nil {
			of[p.Name] = map[cas.Digest]string{}
		}
		// The same bytes under two paths, one with a version: that is the version.
		if v := of[p.Name][p.Digest]; v == "" || v == lock.NoVersion {
			of[p.Name][p.Digest] = p.Version
		}
	}
	var lines []file.Program
	for name, versions := range of {
		for digest, version := range versions {
			line := file.Program{Name: name, Platform: platform, Version: version, Digest: digest}
			if len(versions) > 1 {
				line.Name += ":" + strings.TrimPrefix(digest.String(), "blake3:")[:apart]
			}
			lines = append(lines, line)
		}
	}
	return lines
}
