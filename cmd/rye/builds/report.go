// Progress of a build for people, and its error.

package builds

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/exec/primitive"
)

// mostWritten is how many bytes of a tool's output are kept for the case that it fails.
const mostWritten = 64 << 10

// A stepOutput is a sink that keeps the last mostWritten bytes.
type stepOutput struct{ tail []byte }

// Emit implements primitive.Sink.
func (o *stepOutput) Emit(_ primitive.Stream, b []byte) error {
	o.tail = append(o.tail, b...)
	if more := len(o.tail) - mostWritten; more > 0 {
		o.tail = append(o.tail[:0], o.tail[more:]...)
	}
	return nil
}

// sink returns the sink for the output of a step's tool.
func (b *reporter) sink(step string) primitive.Sink {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written == nil {
		b.written = map[string]*stepOutput{}
	}
	o := &stepOutput{}
	b.written[step] = o
	return o
}

// report prints the outcome of a step, and its output if it failed or --verbose is given.
func (b *reporter) report(report *build.Report) {
	if b.dry {
		return
	}
	time := ""
	if report.State == build.Ran || report.State == build.Failed {
		time = "  " + report.Duration.Round(roundTo).String()
	}
	say := b.term.Note
	if report.State == build.Unchanged && !b.why {
		say = b.term.Detail
	}
	say("%s  %s%s", fmt.Sprintf("%-9s", report.State), report.Step, time)
	if b.why || report.State == build.Skipped {
		for _, line := range report.Why {
			b.term.Note("           %s", line)
		}
	}
	if report.Note != "" {
		b.term.Detail("           %s", report.Note)
	}
	b.mu.Lock()
	o := b.written[report.Step]
	b.mu.Unlock()
	if o == nil || report.State != build.Failed && !b.term.Verbose {
		return
	}
	for line := range bytes.Lines(o.tail) {
		text := strings.TrimRight(string(line), "\r\n")
		if report.State == build.Failed {
			b.term.Say("           ", "%s", []any{text})
		} else {
			b.term.Detail("           %s", text)
		}
	}
}

// verdict prints the summary of a build, or returns it as an error if a step failed. The first failed step gives the
// error its code and text.
func (b *reporter) verdict(app *cli.App, result *build.Result) error {
	count := map[build.State]int64{}
	var failed []*build.Report
	for _, s := range result.Steps {
		count[s.State]++
		if s.State == build.Failed {
			failed = append(failed, s)
		}
	}
	var parts []string
	for _, state := range []build.State{build.Ran, build.Cached, build.Unchanged, build.Failed, build.Skipped} {
		if count[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[state], state))
		}
	}
	if len(failed) == 0 {
		if !b.dry {
			b.term.Note("%s: %s", fault.Count(int64(len(result.Steps)), "step"), strings.Join(parts, ", "))
		}
		return nil
	}
	f := b.fault(app, failed[0])
	for _, s := range failed[1:] {
		f.Why = append(f.Why, fmt.Sprintf("and the step %s: %s", s.Step, b.fault(app, s).Text))
	}
	f.Why = append(f.Why, fmt.Sprintf("%s: %s", fault.Count(int64(len(result.Steps)), "step"),
		strings.Join(parts, ", ")))
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details["step"] = failed[0].Step
	return f
}

// fault returns the error of a failed step, with the step's name in its text.
func (b *reporter) fault(a *cli.App, s *build.Report) *fault.Error {
	if no, ok := errors.AsType[*build.FailedError](s.Err); ok {
		f := runs.CallFault(a, no.Plan, no.Result)
		f.Text = fmt.Sprintf("the step %q: %s", s.Step, f.Text)
		return f
	}
	f := *fault.Of(s.Err)
	if !strings.Contains(f.Text, fmt.Sprintf("the step %q", s.Step)) {
		f.Text = fmt.Sprintf("the step %q: %s", s.Step, f.Text)
	}
	return &f
}

// roundTo is the precision of printed durations.
const roundTo = 10 * time.Millisecond
