package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
)

// A terminal is the only thing that writes to the standard streams. Data goes to standard output, buffered
// until the end; narration, warnings and errors go to standard error, at once. Every text that is given as
// an argument is escaped (see escape), so callers print names, paths and errors as they are. Its methods
// other than data are safe for concurrent use.
//
// Sentences begin in lower case and end without a period; names stand in quotes.
type terminal struct {
	stdout, stderr stream
	json           bool
	quiet          bool
	verbose        bool
	debug          bool
	ascii          bool // a terminal is attached that shows no UTF-8
	live           bool // a progress line may be drawn

	data *bufio.Writer // standard output

	mu     sync.Mutex
	line   string // the progress line on the screen
	warned map[string]bool
}

// A stream is standard output or standard error.
type stream struct {
	io.Writer
	tty   bool
	color bool
	width func() int // columns of the terminal, 0 when unknown; nil when there is none
}

// A role is what colours mean.
type role string

const (
	roleError role = "\x1b[1;31m"
	roleWarn  role = "\x1b[33m"
	roleGood  role = "\x1b[32m"
	roleHint  role = "\x1b[36m"
)

func newTerminal(stdout, stderr stream) *terminal {
	return &terminal{stdout: stdout, stderr: stderr, data: bufio.NewWriterSize(stdout, 1<<15)}
}

// paint escapes s and colours it.
func (s stream) paint(r role, text string, ascii bool) styled {
	text = escape(text, ascii)
	if !s.color {
		return styled(text)
	}
	return styled(string(r) + text + "\x1b[0m")
}

// printf writes data. A write that fails is reported by flush.
func (t *terminal) printf(format string, args ...any) {
	fmt.Fprintf(t.data, format, escapeArgs(args, t.ascii)...)
}

// rows writes data as aligned columns, two spaces apart; the last column is never padded.
func (t *terminal) rows(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(escape(cell, t.ascii)))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(row)-1 {
				t.printf("%s\n", cell)
				break
			}
			t.printf("%s  ", t.pad(cell, widths[i]))
		}
	}
}

// pad escapes s and fills it up to a width.
func (t *terminal) pad(s string, width int) styled {
	s = escape(s, t.ascii)
	return styled(s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))))
}

// note narrates; --quiet silences it.
func (t *terminal) note(format string, args ...any) {
	if !t.quiet {
		t.say("", format, args)
	}
}

// detail narrates what only --verbose asks for.
func (t *terminal) detail(format string, args ...any) {
	if t.verbose {
		t.say("", format, args)
	}
}

// warn says what must not be missed, --quiet or not. What was said is not said again.
func (t *terminal) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.mu.Lock()
	again := t.warned[text]
	if t.warned == nil {
		t.warned = map[string]bool{}
	}
	t.warned[text] = true
	t.mu.Unlock()
	if again {
		return
	}
	t.say(t.stderr.paint(roleWarn, "warning: ", t.ascii), format, args)
}

// prompt writes a question, whose answer is typed behind it; --quiet doesn't silence it.
func (t *terminal) prompt(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.stderr, format, escapeArgs(args, t.ascii)...)
}

// say writes one line to standard error, above the progress line if there is one.
func (t *terminal) say(prefix styled, format string, args []any) {
	text := string(prefix) + fmt.Sprintf(format, escapeArgs(args, t.ascii)...) + "\n"
	t.mu.Lock()
	defer t.mu.Unlock()
	io.WriteString(t.stderr, t.erase()+text+t.line)
}

// draw replaces the progress line; "" takes it away.
func (t *terminal) draw(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line == t.line {
		return
	}
	old := t.erase()
	t.line = line
	io.WriteString(t.stderr, old+line)
}

// erase returns what takes the progress line off the screen.
func (t *terminal) erase() string {
	if t.line == "" {
		return ""
	}
	return "\r\x1b[K"
}

// fault writes an error for people.
func (t *terminal) fault(f *fault.Error) {
	t.say(t.stderr.paint(roleError, "error: ", t.ascii), "%s", []any{f.Text})
	for _, why := range f.Why {
		t.say("  ", "%s", []any{why})
	}
	for i, hint := range f.Hint {
		prefix := t.stderr.paint(roleHint, "hint: ", t.ascii)
		if i > 0 {
			prefix = "      "
		}
		t.say(prefix, "%s", []any{hint})
	}
	if t.debug && f.Err != nil {
		t.chain(f.Err, "  ")
	}
}

// chain writes an error and what it wraps, outermost first.
func (t *terminal) chain(err error, indent styled) {
	for err != nil {
		t.say(indent, "%s: %s", []any{fmt.Sprintf("%T", err), err})
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

// finish writes a command's outcome, flushes and returns the exit status.
func (t *terminal) finish(schema string, ans answer, err error) int {
	t.draw("")
	var f *fault.Error
	if err != nil {
		f = classify(err)
	}
	if e := t.outcome(schema, ans, f); e != nil {
		// What was to be said can't be: standard error is what is left, and the status must tell.
		f = classify(fmt.Errorf("writing to standard output: %w", e))
		t.fault(f)
		return f.Line().Exit
	}
	if f == nil {
		return fault.ExitDone
	}
	return f.Line().Exit
}

func (t *terminal) outcome(schema string, ans answer, f *fault.Error) (err error) {
	switch {
	case !t.json:
		if ans != nil {
			ans.text(t)
		}
		err = t.data.Flush()
		if f != nil {
			t.fault(f)
		}
		return err
	case f == nil && ans == nil:
		return t.data.Flush()
	}
	var line []byte
	if f == nil {
		line, err = replyData(schema, ans)
	} else {
		line, err = replyFault(f, schema, ans)
		if t.debug && f.Err != nil {
			t.chain(f.Err, "")
		}
	}
	if err != nil {
		return err
	}
	t.data.Write(line)
	return t.data.Flush()
}
