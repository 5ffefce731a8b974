//go:build !linux

package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// Stage has nothing to do where there is no second stage.
func Stage([]string) int { return 2 }

func (m *Machine) probe() Offers {
	return Offers{Best: floor.Limits, Parts: []Part{{Name: "landlock", Why: "Linux alone has it"}}}
}

// run keeps what can be kept from outside: time and output.
func (m *Machine) run(ctx context.Context, s Spec, c proc.Command) (*Outcome, error) {
	if s.Most {
		s.Level = max(s.Level, floor.Limits)
	}
	if s.Level > floor.Limits {
		return nil, &UnavailableError{Level: s.Level, Missing: []string{"landlock: only on Linux"}}
	}
	out := &Outcome{Level: s.Level}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	because := func(why string) {
		once.Do(func() { out.Ended = why })
		cancel()
	}
	o := &output{left: s.Limits.Output, tooMuch: func() { because("output") }}
	stdout, stderr := &stream{output: o, to: c.Stdout}, &stream{output: o, to: c.Stderr}
	c.Stdout, c.Stderr = stdout, stderr
	if s.Level >= floor.Limits {
		out.Enforced = []string{"wall", "output"}
		timer := time.AfterFunc(s.Limits.Wall, func() { because("timeout") })
		defer timer.Stop()
	}
	defer context.AfterFunc(ctx, func() { because("cancelled") })()
	exit, err := proc.Run(inner, c)
	once.Do(func() {})
	if exit == nil || err != nil && out.Ended == "" {
		return nil, err
	}
	out.Exit = *exit
	out.Usage = map[string]int64{
		"cpu_ms": exit.CPU.Milliseconds(), "wall_ms": exit.Wall.Milliseconds(), "max_rss": exit.MaxRSS,
		"stdout_bytes": stdout.count, "stderr_bytes": stderr.count,
	}
	return out, nil
}
