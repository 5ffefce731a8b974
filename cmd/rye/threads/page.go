package threads

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads/graphview"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A page writes a transcript as text or Markdown. It escapes line by line what models and tools wrote.
type page struct {
	t        *cli.Terminal
	o        *overview
	markdown bool
	calls    map[string]string // names of the running calls, by id
}

func (w *page) header() {
	overview := w.o
	if !w.markdown {
		w.t.Rows([][]string{{"thread", overview.Thread}, {"directive", overview.Directive},
			{"status", overview.Status}, {"model",
				overview.Model}, {"created", overview.Created}})
		return
	}
	category := "agent/threads"
	if dir := path.Dir(overview.Thread); dir != "." {
		category += "/" + dir
	}
	w.t.Printf("```yaml\n")
	for _, m := range [][2]string{{"id", quote(path.Base(overview.Thread))}, {"title", quote(overview.Directive)},
		{"entry_type", "thread_transcript"}, {"category", quote(category)}, {"version", `"1.0.0"`}, {"author", "rye"},
		{"created_at", quote(overview.Created)}, {"thread_id", quote(overview.Thread)},
		{"directive", quote(overview.Directive)}, {"status", overview.Status}, {"model", quote(overview.Model)},
		{"turns", number(overview.Turns)}, {"input_tokens", number(overview.Input)},
		{"output_tokens", number(overview.Output)},
		{"spend", strings.TrimPrefix(dollars(overview.Spend), "$")}, {"tags", "[thread, " + overview.Status + "]"}} {
		w.t.Printf("%s: %s\n", m[0], m[1])
	}
	w.t.Printf("```\n\n# %s\n", overview.Directive)
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// heading begins a part of the page: "## Text" in Markdown, otherwise a line of its own.
func (w *page) heading(level int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.markdown {
		w.t.Printf("\n%s %s\n", strings.Repeat("#", level), text)
		return
	}
	w.t.Printf("\n%s%s\n", strings.Repeat("  ", level-2), w.t.Stdout.Paint(cli.RoleHint, text, w.t.Ascii))
}

// text writes a text of a person or a model, indented or as Markdown.
func (w *page) text(level int, s string) {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return
	}
	indent := ""
	if w.markdown {
		w.t.Printf("\n")
	} else {
		indent = strings.Repeat("  ", level-1)
	}
	for line := range strings.Lines(s) {
		w.line(indent, strings.TrimRight(line, "\r\n"))
	}
}

// line writes a line and keeps its tabs.
func (w *page) line(indent, s string) {
	parts := strings.Split(s, "\t")
	for i, part := range parts {
		parts[i] = cli.Escape(part, w.t.Ascii)
	}
	w.t.Printf("%s%s\n", indent, cli.Styled(strings.Join(parts, "\t")))
}

// code writes a block unchanged, in a fence that doesn't occur in it.
func (w *page) code(level int, kind, s string) {
	if !w.markdown {
		w.text(level, s)
		return
	}
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	w.text(level, fence+kind+"\n"+strings.TrimRight(s, "\n")+"\n"+fence)
}

// value returns a JSON value for people. A string is itself, without quotes.
func value(v any) (kind, text string) {
	if s, ok := v.(string); ok {
		return "", s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if v == nil || e.Encode(v) != nil {
		return "", ""
	}
	return "json", b.String()
}

// event writes one event. It leaves out events that don't belong to the conversation.
func (w *page) event(e step) {
	switch request := e.Payload.(type) {
	case transcript.Request:
		w.request(request)
	case transcript.Answer:
		w.heading(2, "Response %d", request.Turn)
		w.text(2, request.Text)
	case transcript.Classified:
		w.heading(2, "Error %d", request.Turn)
		w.text(2, fmt.Sprintf("%s: %s (%s, %s)", request.Error.Code, request.Error.Message, request.Category,
			request.Action))
	case transcript.CallStarted:
		w.calls[request.Call] = request.Name
		w.heading(3, "Tool: %s", named(request))
		kind, text := value(request.Input)
		w.code(3, kind, text)
	case transcript.CallResult:
		w.result(request)
	case transcript.Hook:
		if request.Action != "" {
			w.heading(3, "Hook: %s", request.ID)
			w.text(3, request.Event+": "+request.Action)
		}
	case transcript.Limit:
		w.heading(2, "Limit: %s", request.Code)
		w.text(2, fmt.Sprintf("%v of %v", request.Current, request.Max))
	case transcript.Waiting:
		w.heading(2, "%s: %s", strings.ToUpper(request.State[:1])+request.State[1:], request.Reason)
		if request.Error != nil {
			w.text(2, request.Error.Message)
		}
		w.text(2, request.On)
	case transcript.Continued:
		w.heading(2, "Continued")
		w.text(2, request.Message)
	case transcript.NodeStarted, transcript.NodeResult:
		w.heading(2, "%s", graphview.Line(request))
	default:
		w.end(request)
	}
}

func named(c transcript.CallStarted) string {
	if c.Ref == "" || c.Ref == c.Name {
		return c.Name
	}
	return c.Name + " → " + c.Ref
}

// request writes the messages of people. Results of tools are shown with their calls, answers of the model as
// responses.
func (w *page) request(r transcript.Request) {
	for _, v := range r.Messages {
		b, err := json.Marshal(v)
		var m transcript.Message
		if err != nil || json.Unmarshal(b, &m) != nil || m.Role != "user" && m.Role != "system" {
			continue
		}
		w.heading(2, "Input %d", r.Turn)
		w.text(2, m.Text)
	}
}

func (w *page) result(r transcript.CallResult) {
	what := "Result"
	if r.Status != transcript.CallOK {
		what = "Error (" + r.Status + ")"
	}
	w.heading(3, "%s: %s", what, w.calls[r.Call])
	delete(w.calls, r.Call)
	if r.Error != nil {
		w.text(3, strings.TrimPrefix(r.Error.Code+": "+r.Error.Message, ": "))
	}
	kind, text := value(r.Output)
	if text != "" {
		w.code(3, kind, text)
	}
}

// end writes how the thread ended.
func (w *page) end(p transcript.Payload) {
	switch completed := p.(type) {
	case transcript.Completed:
		if len(completed.Outputs) > 0 {
			w.heading(2, "Outputs")
			_, text := value(completed.Outputs)
			w.code(2, "json", text)
		}
	case transcript.Failed:
		w.heading(2, "Error")
		w.text(2, strings.TrimPrefix(completed.Error.Code+": "+completed.Error.Message, ": "))
	case transcript.Cancelled:
		w.heading(2, "Cancelled")
		w.text(2, completed.Reason)
	case transcript.HandedOff:
		w.heading(2, "Continued in %s", completed.Next)
	}
}

// footer writes the usage of the thread.
func (w *page) footer() {
	o := w.o
	line := fmt.Sprintf("%s: %s, %d tokens in, %d out, %s", o.Status, fault.Count(o.Turns, "turn"), o.Input, o.Output,
		dollars(o.Spend))
	if w.markdown {
		w.t.Printf("\n---\n\n%s\n", line)
		return
	}
	w.t.Printf("\n%s\n", line)
}
