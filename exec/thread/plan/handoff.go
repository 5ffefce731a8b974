package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/provider"
)

// A Handoff is the configuration of handing over.
type Handoff struct {
	Threshold float64
	Directive string // "" for no summary
	Model     string
	Limits    map[string]any
	MaxTokens int64
	Ceiling   int64 // tokens
}

// ReadHandoff reads config:coordination.
func ReadHandoff(v *value.Value) (*Handoff, error) {
	handoff := &Handoff{Threshold: 0.9, MaxTokens: 4000, Ceiling: 16000, Limits: map[string]any{}}
	continuation := v.Get("coordination").Get("continuation")
	for _, fields := range []struct {
		at    *value.Value
		known []string
	}{
		{v, []string{"coordination", "schema_version", "name", "version", "category", "description"}},
		{v.Get("coordination"), []string{"continuation"}},
		{continuation, []string{"trigger_threshold", "pressure_threshold", "summary_directive", "summary_model",
			"summary_limit_overrides", "summary_max_tokens", "resume_ceiling_tokens"}},
	} {
		if key := fields.at.Unknown(fields.known...); key != "" {
			return nil, fault.New(fault.Config, "invalid config:coordination: unknown key %q: expected one of %s", key,
				strings.Join(fields.known, ", "))
		}
	}
	if t := continuation.Get("trigger_threshold"); !t.IsNull() {
		n, err := strconv.ParseFloat(t.Text, 64)
		if err != nil || !(n > 0 && n <= 1) || t.Kind == value.Text {
			return nil, fault.New(fault.Config,
				"invalid config:coordination: trigger_threshold must be above 0 and at most 1")
		}
		handoff.Threshold = n
	}
	for name, to := range map[string]*int64{"summary_max_tokens": &handoff.MaxTokens,
		"resume_ceiling_tokens": &handoff.Ceiling} {
		if n := continuation.Get(name); !n.IsNull() {
			given, ok := n.Int()
			if !ok || given < 1 {
				return nil, fault.New(fault.Config, "invalid config:coordination: %s must be at least 1", name)
			}
			*to = given
		}
	}
	for name, to := range map[string]*string{"summary_directive": &handoff.Directive,
		"summary_model": &handoff.Model} {
		text := continuation.Get(name)
		if !text.IsNull() && text.Kind != value.Text {
			return nil, fault.New(fault.Config, "invalid config:coordination: %s must be a string, got %s", name,
				text.Kind)
		}
		*to = text.String()
	}
	normal, problems := declared.Limits(continuation.Get("summary_limit_overrides"))
	if len(problems) > 0 {
		return nil, fault.New(fault.Config, "invalid config:coordination: summary_limit_overrides: %s",
			problems[0].Message)
	}
	if normal != nil {
		for _, e := range normal.Map {
			handoff.Limits[e.Key], _ = strconv.ParseFloat(e.Value.Text, 64) // in the form of package declared
		}
	}
	return handoff, nil
}

// Room returns how many tokens of the old messages a new thread has room for, and a summary: half of the window, or
// that would be full at once. window is 0 if it isn't known.
func (h *Handoff) Room(window int64) (kept, read int64) {
	if window <= 0 {
		return h.Ceiling, math.MaxInt32
	}
	return min(h.Ceiling, window/2), window / 2
}

// maxSummarised is how many bytes of a conversation are summarised at most: a model of the tier fast must be able to
// read it for the money that the config gives.
const maxSummarised = 128 << 10

// Child is what starts the thread that summarises messages: the parameters of package toolcall. At most room bytes of
// the conversation are given to it: the middle of long texts is left out.
func (h *Handoff) Child(directive string, messages []provider.Message, room int64) map[string]any {
	most := int(min(room, maxSummarised))
	text := conversation(messages, most)
	for each := most / 4; len(text) > most && each > 200; each /= 2 {
		text = conversation(messages, each)
	}
	given := map[string]any{"directive_name": h.Directive, "limit_overrides": h.Limits, "inputs": map[string]any{
		"transcript_content": shorten(text, most), "directive_name": directive,
		"max_summary_tokens": float64(h.MaxTokens)}}
	if h.Model != "" {
		given["model"] = h.Model
	}
	return given
}

// conversation writes messages down, each text and each call's input shortened to so many bytes.
func conversation(messages []provider.Message, each int) string {
	var text strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&text, "[%s] %s\n", m.Role, shorten(m.Text, each))
		for _, c := range m.Calls {
			input, _ := json.Marshal(c.Input) // it was read from JSON
			fmt.Fprintf(&text, "[call] %s %s\n", c.Name, shorten(string(input), each))
		}
	}
	return text.String()
}

// shorten leaves out the middle of a text that has more than so many bytes.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	note := fmt.Sprintf(" … %d bytes … ", len(text)-most)
	half := max(most-len(note), 0) / 2
	return strings.ToValidUTF8(text[:half], "") + note + strings.ToValidUTF8(text[len(text)-half:], "")
}
