package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sink"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// This file passes on what a tool writes while it runs.

// A toolOutput passes a tool's output on: unchanged to a file or a pipe, and to a terminal line by line without
// control characters. Standard output goes to the sink if there is one. With --json and no sink it is dropped.
type toolOutput struct {
	app      *cli.App
	sink     sink.Sink // of --sink; nil: none
	lines    [2]bytes.Buffer
	unread   bool  // the reader of the output is gone
	writeErr error // another error that stopped the output
}

func openSink(a *cli.App) *toolOutput { return &toolOutput{app: a} }

// mostLine is how long a line may become before it is shown without its end.
const mostLine = 1 << 16

// Emit implements primitive.Sink.
func (p *toolOutput) Emit(stream primitive.Stream, data []byte) error {
	t := p.app.Term
	to := t.Stderr
	if stream == primitive.Stdout {
		if p.sink != nil {
			return p.sink.Emit(stream, data)
		}
		if t.Json {
			return nil
		}
		to = t.Stdout
	}
	if !to.Tty {
		return p.write(stream, to, data)
	}
	line := &p.lines[stream&1]
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 && line.Len()+len(data) < mostLine {
			line.Write(data)
			return nil
		}
		end := i + 1
		if i < 0 {
			end = len(data)
		}
		line.Write(data[:end])
		if err := p.show(stream, to); err != nil {
			return err
		}
		if data = data[end:]; len(data) == 0 {
			return nil
		}
	}
}

// show writes the collected line to a terminal.
func (p *toolOutput) show(stream primitive.Stream, to cli.Stream) error {
	line := p.lines[stream&1].String()
	p.lines[stream&1].Reset()
	text, ended := strings.CutSuffix(line, "\n")
	text = strings.TrimSuffix(text, "\r")
	var out strings.Builder
	for i, cell := range strings.Split(text, "\t") {
		if i > 0 {
			out.WriteByte('\t')
		}
		out.WriteString(cli.Escape(cell, p.app.Term.Ascii))
	}
	if ended {
		out.WriteByte('\n')
	}
	return p.write(stream, to, []byte(out.String()))
}

func (p *toolOutput) write(stream primitive.Stream, to cli.Stream, b []byte) error {
	p.app.Term.Mu.Lock()
	defer p.app.Term.Mu.Unlock()
	if old := p.app.Term.Erase(); old != "" {
		io.WriteString(p.app.Term.Stderr, old)
		p.app.Term.Line = ""
	}
	_, err := to.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE):
		p.unread = true
	case err != nil:
		p.writeErr = fmt.Errorf("writing to standard %s: %w", [2]string{"output", "error"}[stream&1], err)
	}
	return err
}

// flush shows the last lines, which have no line end, and ends them: otherwise the shell's prompt would follow on the
// same line.
func (p *toolOutput) flush() {
	for s, to := range map[primitive.Stream]cli.Stream{primitive.Stdout: p.app.Term.Stdout,
		primitive.Stderr: p.app.Term.Stderr} {
		if p.lines[s&1].Len() > 0 { // only a terminal's lines are collected
			p.lines[s&1].WriteByte('\n')
			p.show(s, to)
		}
	}
}

// warnWeak warns if the machine enforces less than a sandbox could, and details unpinned programs for --verbose.
func warnWeak(app *cli.App, p *exec.Plan, result *exec.Result) {
	if result.Level < floor.Landlock {
		app.Term.Warn(
			"%s ran without a sandbox for files and system calls, which this machine doesn't have: rye doctor",
			p.Chain[0].Item.Ref)
	}
	for _, q := range p.Programs {
		if !q.Pinned {
			app.Term.Detail("unpinned: %s %s (%s)", q.Name, q.Path, q.Digest.Short())
		}
	}
	app.Term.Detail("%s: %s", result.ID, strings.Join(result.Enforced, ", "))
	for _, line := range result.Applied {
		app.Term.Detail("%s", line)
	}
}
