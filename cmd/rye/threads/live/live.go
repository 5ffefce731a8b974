// Package live shows threads on the terminal while they run, and asks about their calls.
//
// How an event goes through here: Watch makes a View, and Live returns the functions that the engine calls. event
// writes a call as a line with note, or the whole event as JSON. text writes the model's text while it arrives.
// state keeps the running threads, and redraw draws line, which sums them up, every so often. Asks returns the
// function that asks about a call, with Ask to clear the screen and Question to show the call. End stops the view.
package live

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A View shows running threads: calls and the ends of children as lines on standard error, indented below their
// parent. On a terminal it also shows the model's text while it arrives and, after a second, a line with the turns
// and the money of the thread and its running children. Watch starts it and the caller calls End.
type View struct {
	app     *cli.App
	events  bool // show each event as JSON instead
	begun   time.Time
	stop    chan struct{}
	redraws sync.WaitGroup // the goroutine of redraw

	mu      sync.Mutex
	threads []thread.State       // running; the first is the one that the user started
	doing   map[string]*activity // of threads
	open    bool                 // the text on the screen doesn't end with a newline
	asking  bool                 // a question is on the screen
}

// Watch starts to show threads. With events it writes each event as a line of JSON instead. The caller calls End.
func Watch(a *cli.App, events bool) *View {
	v := &View{app: a, events: events, begun: time.Now(), stop: make(chan struct{}), doing: map[string]*activity{}}
	if a.Term.Live && !a.Term.Quiet && !events {
		v.redraws.Go(v.redraw)
	}
	return v
}

// Live returns the functions that receive the events of the threads.
func (v *View) Live() (l thread.Live) {
	l.Event, l.State = v.event, v.state
	if t := v.app.Term; t.Stdout.Tty && !t.Json && !t.Quiet {
		l.Text = v.text
	}
	return l
}

// End stops the view and clears its line, before the answer is printed.
func (v *View) End() {
	close(v.stop)
	v.redraws.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
}

// Ask clears the screen for a question and shows nothing else meanwhile.
func (v *View) Ask(question func()) {
	v.mu.Lock()
	v.clear()
	v.asking = true
	v.mu.Unlock()
	question()
	v.mu.Lock()
	v.asking = false
	v.mu.Unlock()
}

func (v *View) redraw() {
	timer := time.NewTimer(cli.ProgressAfter)
	defer timer.Stop()
	for {
		select {
		case <-v.stop:
			return
		case now := <-timer.C:
			v.mu.Lock()
			if !v.open && !v.asking {
				v.draw(v.line(now))
			}
			v.mu.Unlock()
			timer.Reset(cli.ProgressEvery)
		}
	}
}

// draw replaces the line with the turns. "" removes it.
func (v *View) draw(line string) { Draw(v.app.Term, line) }

// Draw replaces the last line of the terminal. "" removes it.
func Draw(t *cli.Terminal, line string) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if old := t.Erase(); line != t.Line {
		t.Line = line
		fmt.Fprint(t.Stderr, old+line)
	}
}

// Fit shortens a line to the width of the terminal, because a line that wraps can't be redrawn.
func Fit(t *cli.Terminal, line string) string {
	width := 80
	if w := t.Stderr.Width; w != nil && w() > 0 {
		width = w()
	}
	runes := []rune(cli.Escape(line, t.Ascii))
	return string(runes[:min(len(runes), width-1)])
}

// clear removes the line with the turns and ends an open line of text.
func (v *View) clear() {
	v.draw("")
	if v.open {
		v.app.Term.Data.WriteByte('\n')
		v.app.Term.Data.Flush()
	}
	v.open = false
}

// text shows a part of the model's text without control characters.
func (v *View) text(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.draw("")
	term := v.app.Term
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			term.Data.WriteByte('\n')
		}
		for i, cell := range strings.Split(line, "\t") {
			if i > 0 {
				term.Data.WriteByte('\t')
			}
			term.Data.WriteString(cli.Escape(cell, term.Ascii))
		}
	}
	term.Data.Flush()
	v.open = !strings.HasSuffix(text, "\n")
}

// event shows an event as JSON. Otherwise each call, each failure and each wait is a line.
func (v *View) event(event *transcript.Event) {
	if v.events {
		line, err := json.Marshal(map[string]any{"seq": event.Seq, "time": event.Time, "thread": event.Thread,
			"type":    event.Type,
			"payload": json.RawMessage(event.Payload)})
		if err == nil {
			fmt.Fprintf(v.app.Term.Stderr, "%s\n", line)
		}
		return
	}
	v.follow(event)
	switch event.Type {
	case transcript.TypeCallStarted:
		call := new(transcript.CallStarted)
		if event.Decode(call) != nil {
			return
		}
		if call.Child != "" {
			call.Ref = "directive:" + directiveOf(call.Child)
		}
		v.note(event.Thread, strings.TrimSpace(call.Name+" "+call.Ref))
	case transcript.TypeCallResult:
		var result transcript.CallResult
		if event.Decode(&result) == nil && result.Status != transcript.CallOK {
			v.note(event.Thread, result.Status+": "+reason(&result))
		}
	case transcript.TypeClassified:
		var failed transcript.Classified
		if event.Decode(&failed) == nil {
			v.note(event.Thread, attempt(&failed))
		}
	case transcript.TypeAnswer:
		var answer transcript.Answer
		if event.Decode(&answer) == nil && answer.Kept {
			v.note(event.Thread, fmt.Sprintf("the answer doesn't say what it used: charged at most $%.6f",
				float64(answer.Cost)/limits.Nano))
		}
	}
}

// reason returns why a call didn't succeed, on one line.
func reason(r *transcript.CallResult) string {
	var said struct{ Error transcript.Fault }
	if r.Error != nil {
		said.Error = *r.Error
	} else if text, ok := r.Output.(string); !ok || json.Unmarshal([]byte(text), &said) != nil {
		return "the tool failed"
	}
	return oneLine(cmp.Or(said.Error.Code, string(fault.Failed)) + ": " + cmp.Or(said.Error.Message,
		"the tool failed"))
}

// attempt returns what came of a model call that failed, and what is done about it.
func attempt(failed *transcript.Classified) string {
	text := oneLine(failed.Error.Message)
	if failed.Cost > 0 {
		text += fmt.Sprintf("; what it used is unknown: charged $%.6f", float64(failed.Cost)/limits.Nano)
	}
	switch failed.Action {
	case "retry":
		text += "; trying again" + in(failed.Delay)
	case "fallback":
		text += "; the fallback model is asked"
	}
	return text
}

// in returns how long a wait takes, "" if there is none.
func in(delay time.Duration) string {
	if delay <= 0 {
		return ""
	}
	return " in " + max(delay.Round(100*time.Millisecond), 100*time.Millisecond).String()
}

// maxReason is how many bytes of a reason a line has.
const maxReason = 300

func oneLine(text string) string {
	return fault.Clip(strings.Join(strings.Fields(text), " "), maxReason)
}

// state shows the end of a child and why a node of a graph is tried again, and updates the line with the turns.
func (v *View) state(state thread.State) {
	if state.Why != "" && !v.events {
		v.note(state.Thread, oneLine(state.Why)+"; trying again"+in(state.Wait))
	}
	if state.Status != "" && state.Parent != "" && !v.events {
		v.note(state.Thread, fmt.Sprintf("%s, %s, %s", state.Status, fault.Count(state.Turn, "turn"), spent(state)))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	at := slices.IndexFunc(v.threads, func(o thread.State) bool { return o.Thread == state.Thread })
	if state.Wait > 0 {
		v.activity(state.Thread).until = time.Now().Add(state.Wait)
	}
	switch {
	case state.Status != "" && at >= 0:
		v.threads = slices.Delete(v.threads, at, at+1)
	case state.Status != "":
	case at < 0:
		v.threads = append(v.threads, state)
	default:
		v.threads[at] = state
	}
}

// note shows a line about a thread, indented below its parent.
func (v *View) note(id, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	depth := 0
	for at := id; ; depth++ {
		i := slices.IndexFunc(v.threads, func(o thread.State) bool { return o.Thread == at })
		if i < 0 || v.threads[i].Parent == "" {
			break
		}
		at = v.threads[i].Parent
	}
	if depth > 0 {
		text = strings.Repeat("  ", depth) + directiveOf(id) + ": " + text
	}
	v.clear()
	v.app.Term.Note("%s", text)
}

// line returns the line with the turns and the money of the threads.
func (v *View) line(now time.Time) string {
	if len(v.threads) == 0 {
		return ""
	}
	var parts []string
	for i, s := range v.threads {
		part := "turn " + strconv.FormatInt(s.Turn, 10)
		if s.Turns != limits.Unlimited {
			part += " of " + strconv.FormatInt(s.Turns, 10)
		}
		if part += ", " + spent(s); i > 0 {
			part = directiveOf(s.Thread) + ": " + part
		} else {
			part += ", " + cli.Countdown(now.Sub(v.begun).Seconds())
		}
		if does := v.activity(s.Thread).text(now); does != "" {
			part += ", " + does
		}
		parts = append(parts, part)
	}
	return Fit(v.app.Term, strings.Join(parts, "; "))
}

// spent returns the money that a thread has used, and its budget.
func spent(s thread.State) string {
	text := fmt.Sprintf("$%.4f", float64(s.Spend)/limits.Nano)
	if s.Budget != limits.Unlimited {
		text += " of $" + strconv.FormatFloat(float64(s.Budget)/limits.Nano, 'f', -1, 64)
	}
	return text
}

var idEnd = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-[0-9]+-[0-9a-z]+$`)
})

// directiveOf returns the directive in the id of a thread.
func directiveOf(thread string) string { return idEnd().ReplaceAllString(thread, "") }
