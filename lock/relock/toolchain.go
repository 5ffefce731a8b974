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

// A Toolchain finds the programs on this machine that chains would start. The code that starts a program decides what
// belongs to it: this package knows names and digests only.
type Toolchain interface {
	// Platform returns this machine's platform, such as linux/amd64.
	Platform() string
	// Programs returns the programs that the chains of tools would start here, in any order and possibly repeated:
	// names by lock.ProgramName. It returns missing programs separately; any other error ends it.
	Programs(ctx context.Context, view *ai.View, tools []model.Ref) (found []file.Program, missing []error, err error)
}

// toolchain returns the lines of programs: those of other platforms unchanged, and those of this one. Lines of a
// program missing here stay, since another machine of the platform has made them.
func (r *Request) toolchain(ctx context.Context, made *Made, view *ai.View) ([]file.Program, error) {
	if r.Toolchain == nil {
		return r.Old.Toolchain, nil
	}
	var tools []model.Ref
	for i := range made.Closure.Pins {
		if ref := made.Closure.Pins[i].Ref; ref.Kind == "tool" {
			tools = append(tools, ref)
		}
	}
	found, missing, err := r.Toolchain.Programs(ctx, view, tools)
	if err != nil {
		return nil, err
	}
	made.Unfound = missing
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

// apart is how many digits of a digest distinguish programs of one name.
const apart = 12

// named returns each program once, under a unique name.
func named(found []file.Program, platform string) []file.Program {
	of := map[string]map[cas.Digest]string{}
	for _, p := range found {
		if of[p.Name] == nil {
			of[p.Name] = map[cas.Digest]string{}
		}
		// If the same bytes have two paths, one with a version, that version counts.
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
