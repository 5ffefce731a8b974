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

// A passing hands on what a tool writes while it runs: to a file or a pipe as it is, to a terminal a line at a time
// and without what a terminal obeys. With --json standard output isn't the tool's, and with another sink it goes
// there.
type passing struct {
	app   *cli.App
	other sink.Sink // nil: there is none
	lines [2]bytes.Buffer
	gone  bool  // the reader of the output is gone
	lost  error // why else something couldn't be written
}

func openSink(a *cli.App) *passing { return &passing{app: a} }

// mostLine is how long a line may become before it is shown.
const mostLine = 1 << 16

// Emit implements primitive.Sink.
func (p *passing) Emit(s primitive.Stream, b []byte) error {
	t := p.app.Term
	to := t.Stderr
	if s == primitive.Stdout {
		if p.other != nil {
			return p.other.Emit(s, b)
		}
		if t.Json {
			return nil
		}
		to = t.Stdout
	}
	if !to.Tty {
		return p.write(s, to, b)
	}
	line := &p.lines[s&1]
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 && line.Len()+len(b) < mostLine {
			line.Write(b)
			return nil
		}
		end := i + 1
		if i < 0 {
			end = len(b)
		}
		line.Write(b[:end])
		if err := p.show(s, to); err != nil {
			return err
		}
		if b = b[end:]; len(b) == 0 {
			return nil
		}
	}
}

// show writes the line that is there.
func (p *passing) show(s primitive.Stream, to cli.Stream) error {
	line := p.lines[s&1].String()
	p.lines[s&1].Reset()
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
	return p.write(s, to, []byte(out.String()))
}

func (p *passing) write(s primitive.Stream, to cli.Stream, b []byte) error {
	p.app.Term.Mu.Lock()
	defer p.app.Term.Mu.Unlock()
	if old := p.app.Term.Erase(); old != "" {
		io.WriteString(p.app.Term.Stderr, old)
		p.app.Term.Line = ""
	}
	_, err := to.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE):
		p.gone = true
	case err != nil:
		p.lost = fmt.Errorf("writing to standard %s: %w", [2]string{"output", "error"}[s&1], err)
	}
	return err
}

// flush shows what has no end of line.
func (p *passing) flush() {
	for s, to := range map[primitive.Stream]cli.Stream{primitive.Stdout: p.app.Term.Stdout,
		primitive.Stderr: p.app.Term.Stderr} {
		if p.lines[s&1].Len() > 0 {
			p.show(s, to)
		}
	}
}

// weaker says what holds less than it could where the user's own item runs.
func weaker(a *cli.App, p *exec.Plan, r *exec.Result) {
	if r.Level < floor.Landlock {
		a.Term.Warn("%s ran without a sandbox for files and system calls, which this machine doesn't have: rye doctor",
			p.Chain[0].Item.Ref)
	}
	for _, q := range p.Programs {
		if !q.Pinned {
			a.Term.Detail("unpinned: %s %s (%s)", q.Name, q.Path, q.Digest.Short())
		}
	}
	a.Term.Detail("%s: %s", r.ID, strings.Join(r.Enforced, ", "))
	for _, line := range r.Applied {
		a.Term.Detail("%s", line)
	}
}
