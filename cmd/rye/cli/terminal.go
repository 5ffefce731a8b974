package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/reply"
)

// A Terminal is the only writer of the standard streams: data goes to standard output, buffered until Finish;
// notes, warnings and errors go to standard error at once. It escapes every text that it gets as an argument (see
// Escape), so callers pass names, paths and errors unchanged. Its methods, except those that write data, are safe
// for concurrent use.
//
// Sentences begin in lower case and end without a period; names are in quotes.
type Terminal struct {
	Stdout, Stderr Stream
	Json           bool
	Quiet          bool
	Verbose        bool
	Debug          bool
	Ascii          bool // an attached terminal can't show UTF-8
	Live           bool // a progress line may be drawn

	Data *bufio.Writer // standard output

	Mu     sync.Mutex
	Line   string // the progress line on the screen
	warned map[string]bool
}

// A Stream is standard output or standard error.
type Stream struct {
	io.Writer
	Tty   bool
	Color bool
	Width func() int // columns of the terminal, 0 if unknown; nil without a terminal
}

// A Role is the meaning of a colour.
type Role string

const (
	RoleError Role = "\x1b[1;31m"
	RoleWarn  Role = "\x1b[33m"
	RoleGood  Role = "\x1b[32m"
	RoleHint  Role = "\x1b[36m"
)

// NewTerminal returns a Terminal for two streams. Host.Terminal also decides about colour and progress.
func NewTerminal(stdout, stderr Stream) *Terminal {
	return &Terminal{Stdout: stdout, Stderr: stderr, Data: bufio.NewWriterSize(stdout, 1<<15)}
}

// Paint escapes text and colours it if the stream has colour.
func (s Stream) Paint(r Role, text string, ascii bool) Styled {
	text = Escape(text, ascii)
	if !s.Color {
		return Styled(text)
	}
	return Styled(string(r) + text + "\x1b[0m")
}

// Printf writes data. Finish reports a failed write.
func (t *Terminal) Printf(format string, args ...any) {
	fmt.Fprintf(t.Data, format, escapeArgs(args, t.Ascii)...)
}

// Rows writes data as aligned columns, two spaces apart; the last column is never padded.
func (t *Terminal) Rows(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(Escape(cell, t.Ascii)))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(row)-1 {
				t.Printf("%s\n", cell)
				break
			}
			t.Printf("%s  ", t.Pad(cell, widths[i]))
		}
	}
}

// Pad escapes s and pads it with spaces to a width.
func (t *Terminal) Pad(s string, width int) Styled {
	s = Escape(s, t.Ascii)
	return Styled(s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))))
}

// Note prints a line about progress, unless --quiet is set.
func (t *Terminal) Note(format string, args ...any) {
	if !t.Quiet {
		t.Say("", format, args)
	}
}

// Detail prints a line only with --verbose.
func (t *Terminal) Detail(format string, args ...any) {
	if t.Verbose {
		t.Say("", format, args)
	}
}

// Warn prints a warning, even with --quiet. It prints the same text only once.
func (t *Terminal) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.Mu.Lock()
	again := t.warned[text]
	if t.warned == nil {
		t.warned = map[string]bool{}
	}
	t.warned[text] = true
	t.Mu.Unlock()
	if again {
		return
	}
	t.Say(t.Stderr.Paint(RoleWarn, "warning: ", t.Ascii), format, args)
}

// Prompt prints a question, even with --quiet.
func (t *Terminal) Prompt(format string, args ...any) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	fmt.Fprintf(t.Stderr, format, escapeArgs(args, t.Ascii)...)
}

// Say writes one line to standard error, above the progress line if there is one.
func (t *Terminal) Say(prefix Styled, format string, args []any) {
	text := string(prefix) + fmt.Sprintf(format, escapeArgs(args, t.Ascii)...) + "\n"
	t.Mu.Lock()
	defer t.Mu.Unlock()
	io.WriteString(t.Stderr, t.Erase()+text+t.Line)
}

// draw replaces the progress line; "" removes it.
func (t *Terminal) draw(line string) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if line == t.Line {
		return
	}
	old := t.Erase()
	t.Line = line
	io.WriteString(t.Stderr, old+line)
}

// Erase returns the escape sequence that removes the progress line.
func (t *Terminal) Erase() string {
	if t.Line == "" {
		return ""
	}
	return "\r\x1b[K"
}

// fault writes an error for people.
func (t *Terminal) fault(failure *fault.Error) {
	head := t.Stderr.Paint(RoleError, "error: ", t.Ascii)
	if failure.Plain {
		head = ""
	}
	t.Say(head, "%s", []any{failure.Text})
	for _, why := range failure.Why {
		t.Say("  ", "%s", []any{why})
	}
	for i, hint := range failure.Hint {
		prefix := t.Stderr.Paint(RoleHint, "hint: ", t.Ascii)
		if i > 0 {
			prefix = "      "
		}
		t.Say(prefix, "%s", []any{hint})
	}
	if t.Debug && failure.Err != nil {
		t.chain(failure.Err, "  ")
	}
}

// chain writes an error and what it wraps, outermost first.
func (t *Terminal) chain(err error, indent Styled) {
	for err != nil {
		t.Say(indent, "%s: %s", []any{fmt.Sprintf("%T", err), err})
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				t.chain(e, indent+"  ")
			}
			return
		}
		err = errors.Unwrap(err)
		indent += "  "
	}
}

// Finish writes a command's outcome, flushes and returns the exit status.
func (t *Terminal) Finish(schema string, ans Answer, err error) int {
	t.draw("")
	var failure *fault.Error
	if err != nil {
		failure = fault.Of(err)
	}
	if e := t.outcome(schema, ans, failure); e != nil {
		// Standard output is lost, so standard error and the exit status report it.
		failure = fault.Of(fmt.Errorf("writing to standard output: %w", e))
		t.fault(failure)
		return failure.Line().Exit
	}
	if failure == nil {
		return fault.ExitDone
	}
	return failure.Line().Exit
}

// outcome writes the answer and the error, as text or as one line of JSON. Its error is about standard output.
func (t *Terminal) outcome(schema string, ans Answer, failure *fault.Error) (err error) {
	switch {
	case !t.Json:
		if ans != nil {
			ans.Text(t)
		}
		err = t.Data.Flush()
		if failure != nil {
			t.fault(failure)
		}
		return err
	case failure == nil && ans == nil:
		return t.Data.Flush()
	}
	var line []byte
	if failure == nil {
		line, err = reply.Data(schema, ans)
	} else {
		line, err = reply.Fault(failure, schema, ans)
		if t.Debug && failure.Err != nil {
			t.chain(failure.Err, "")
		}
	}
	if err != nil {
		return err
	}
	t.Data.Write(line)
	return t.Data.Flush()
}

// DryVerb returns the verb of a report: would with --dry-run, else done.
func DryVerb(dry bool, done, would string) string {
	if dry {
		return would
	}
	return done
}
