//go:build !linux

package sandbox

import (
	"context"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// Stage fails: only Linux has a second stage.
func Stage([]string) int { return 2 }

// A reserve is empty without a second stage.
type reserve struct{}

// Ready does nothing.
func (m *Machine) Ready(bool) {}

func (m *Machine) probe() Offers {
	return Offers{Best: floor.Limits, Parts: []Part{{Name: "landlock", Why: "only on Linux"}}}
}

func confines() bool { return false }

// run enforces what can be enforced from outside: time and output.
func (m *Machine) run(ctx context.Context, spec Spec, command proc.Command) (*Ending, error) {
	if spec.Most {
		spec.Level = max(spec.Level, floor.Limits)
	}
	if spec.Level > floor.Limits {
		return nil, &UnavailableError{Level: spec.Level, Missing: []string{"landlock: only on Linux"}}
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	supervisor := spec.supervise(ctx, &command, cancel)
	defer supervisor.release()
	out := &Ending{Level: spec.Level}
	if spec.Level >= floor.Limits {
		out.Enforced = []string{"wall", "output"}
	}
	spec.trying(out)
	exit, err := proc.Run(inner, command)
	if out.Ended = supervisor.reason(); exit == nil || err != nil && out.Ended == "" {
		return nil, err
	}
	out.Exit, out.Usage = *exit, supervisor.usage(*exit)
	return out, nil
}
