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

// run enforces what can be enforced from outside: time and output.
func (m *Machine) run(ctx context.Context, s Spec, c proc.Command) (*Ending, error) {
	if s.Most {
		s.Level = max(s.Level, floor.Limits)
	}
	if s.Level > floor.Limits {
		return nil, &UnavailableError{Level: s.Level, Missing: []string{"landlock: only on Linux"}}
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	v := s.supervise(ctx, &c, cancel)
	defer v.release()
	out := &Ending{Level: s.Level}
	if s.Level >= floor.Limits {
		out.Enforced = []string{"wall", "output"}
	}
	s.trying(out)
	exit, err := proc.Run(inner, c)
	if out.Ended = v.reason(); exit == nil || err != nil && out.Ended == "" {
		return nil, err
	}
	out.Exit, out.Usage = *exit, v.usage(*exit)
	return out, nil
}
