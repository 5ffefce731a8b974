package control

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// The bounds of what a search returns.
const (
	MostHits    = 50  // by default
	mostSnippet = 500 // bytes
	mostMatches = 5   // of one event
	maxPattern  = 1000
)

// A Query is a search in the transcripts of a chain.
type Query struct {
	Text  string
	Regex bool // Text is a regular expression
	Most  int  // hits; 0 for MostHits
}

// A Hit is an event that matches.
type Hit struct {
	Thread  string          `json:"thread"`
	Type    transcript.Type `json:"event_type"`
	Line    int64           `json:"line_no"`
	Snippet string          `json:"snippet"`
	Matches []string        `json:"matches"`
}

// Hits are those of a search.
type Hits struct {
	Chain     []string `json:"chain_threads"`
	Results   []Hit    `json:"results"`
	Truncated bool     `json:"truncated"` // there are more
	Damaged   []string `json:"damaged,omitempty"`
}

// pattern compiles a query. Case doesn't matter.
func (q Query) pattern() (*regexp.Regexp, error) {
	text := q.Text
	switch {
	case text == "":
		return nil, fault.New(fault.Validation, "the query is empty")
	case len(text) > maxPattern:
		return nil, fault.New(fault.Validation, "the query has %d bytes; at most %d are allowed", len(text),
			maxPattern)
	case !q.Regex:
		text = regexp.QuoteMeta(text)
	}
	re, err := regexp.Compile("(?im)" + text)
	if err != nil {
		return nil, fault.New(fault.Validation, "invalid regular expression %q: %v", q.Text, err).From(err)
	}
	return re, nil
}

// Search looks through the transcripts of a thread's chain: what the model was asked and answered, and what its calls
// were given and returned. A transcript that was changed is searched up to there.
func (c *Controller) Search(ctx context.Context, name string, query Query) (*Hits, error) {
	re, err := query.pattern()
	if err != nil {
		return nil, err
	}
	if query.Most < 0 {
		return nil, fault.New(fault.Validation, "the number of results must be at least 1")
	}
	if query.Most == 0 {
		query.Most = MostHits
	}
	rows, err := c.chain(ctx, name)
	if err != nil {
		return nil, err
	}
	found := &Hits{Chain: []string{}, Results: []Hit{}}
	for _, row := range rows {
		found.Chain = append(found.Chain, row.ID)
		if row.Gone() != nil || found.Truncated {
			continue
		}
		for event, err := range transcript.Read(row.Dir()) {
			if stopped := context.Cause(ctx); stopped != nil {
				return nil, stopped
			}
			if err != nil {
				if _, bad := err.(*transcript.Problem); bad && row.State.Ended() {
					found.Damaged = append(found.Damaged, row.ID)
				}
				break
			}
			hit, err := hit(event, re)
			if err != nil {
				return nil, err
			}
			if hit == nil {
				continue
			}
			if len(found.Results) == query.Most {
				found.Truncated = true
				break
			}
			found.Results = append(found.Results, *hit)
		}
	}
	return found, nil
}

// hit looks at one event.
func hit(event *transcript.Event, re *regexp.Regexp) (*Hit, error) {
	payload, err := event.Says()
	if err != nil {
		return nil, err
	}
	var parts []any
	switch payload := payload.(type) {
	case transcript.Request:
		for _, v := range payload.Messages { // the others repeat answers and results
			if m, _ := v.(map[string]any); m["role"] == "user" || m["role"] == "system" {
				parts = append(parts, m["text"])
			}
		}
	case transcript.Answer:
		parts = append(parts, payload.Text)
	case transcript.CallStarted:
		parts = append(parts, payload.Name, payload.Ref, payload.Input)
	case transcript.CallResult:
		if parts = append(parts, payload.Output); payload.Error != nil {
			parts = append(parts, payload.Error.Message)
		}
	case transcript.Artifact:
		if payload.Call != "handoff" { // which repeats what the thread before said
			parts = append(parts, payload.Content)
		}
	case transcript.Continued:
		parts = append(parts, payload.Message)
	case transcript.Completed:
		parts = append(parts, payload.Result, payload.Outputs)
	case transcript.Failed:
		parts = append(parts, payload.Error.Message)
	default:
		return nil, nil
	}
	var text strings.Builder
	for _, part := range parts {
		write(&text, part)
	}
	all := text.String()
	matches := re.FindAllStringIndex(all, mostMatches)
	if len(matches) == 0 {
		return nil, nil
	}
	h := &Hit{Thread: event.Thread, Type: event.Type, Line: event.Seq, Snippet: around(all, matches[0]),
		Matches: []string{}}
	for _, m := range matches {
		h.Matches = append(h.Matches, fault.Clip(all[m[0]:m[1]], mostSnippet))
	}
	return h, nil
}

// write writes the texts in a value of JSON, each with an end of line.
func write(to *strings.Builder, v any) {
	switch val := v.(type) {
	case string:
		if val != "" {
			to.WriteString(val)
			to.WriteByte('\n')
		}
	case []any:
		for _, one := range val {
			write(to, one)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(val)) {
			write(to, val[name])
		}
	case nil, bool:
	default:
		b, err := json.Marshal(val)
		var plain any
		if err == nil && json.Unmarshal(b, &plain) == nil {
			if _, number := plain.(float64); number {
				write(to, string(b))
			} else {
				write(to, plain)
			}
		}
	}
}

// around returns a match with the text before and after it.
func around(text string, at []int) string {
	from := max(0, at[0]-mostSnippet/4)
	to := min(len(text), from+mostSnippet)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	return strings.TrimSpace(text[from:to])
}
