package wire

// The roles of messages.
const (
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool" // the result of a call
)

// A Message is a message of a conversation. Its JSON is part of transcripts.
type Message struct {
	Role  string     `json:"role"`
	Text  string     `json:"text,omitempty"`
	Calls []ToolCall `json:"calls,omitempty"` // of an assistant
	// CallID is the call whose result a tool's message is. Failed means that the call failed.
	CallID string  `json:"call_id,omitempty"`
	Failed bool    `json:"failed,omitempty"`
	Opaque *Opaque `json:"opaque,omitempty"` // of an assistant: see Answer
}

// An Opaque has the data that a service wants back unchanged: all blocks of an answer, in its format.
type Opaque struct {
	Format string `json:"format"`
	Blocks []any  `json:"blocks"`
}

// A Tool is a tool offered to a model. The name has at most 64 letters, digits, "_" and "-", and begins with a
// letter or "_". Schema is a JSON Schema; nil is an object without properties.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Schema      map[string]any `json:"schema,omitempty"`
}

// A ToolCall is a model's request to call a tool. Name is the model's text, which may be any name.
type ToolCall struct {
	ID    string         `json:"id"` // unique in the answer
	Name  string         `json:"name"`
	Input map[string]any `json:"input,omitempty"`
	// Raw has the arguments that aren't a JSON object. Input is then nil.
	Raw string `json:"raw,omitempty"`
}

// Usage counts the tokens of one model call. No token is in two categories: Input excludes tokens read from or
// written to a cache, and Output excludes Reasoning if the service separates them.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Reasoning  int64 `json:"reasoning"`
	// Reported means that the service sent plausible numbers. Otherwise the others are 0.
	Reported bool `json:"reported"`
}

// Prompt returns the tokens of the request, cached or not.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// Answered returns the tokens that the model generated.
func (u Usage) Answered() int64 { return u.Output + u.Reasoning }

// Reasons why a model stopped.
const (
	StopEnd     = "end"
	StopCalls   = "tool_calls"
	StopLength  = "length"  // max_tokens was reached; the last call may be cut
	StopContext = "context" // the context window is full
	StopRefusal = "refusal" // the model or the service refuses; Text may have the reason
	StopOther   = "other"
)

// An Answer is a model's answer.
type Answer struct {
	Text  string     `json:"text,omitempty"`
	Calls []ToolCall `json:"calls,omitempty"`
	Stop  string     `json:"stop"`
	Usage Usage      `json:"usage"`
	// Opaque is set if the service wants back more than text and calls.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Message returns the answer as the assistant's message for the next request.
func (a *Answer) Message() Message {
	return Message{Role: Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque}
}

// Deltas receive an answer while it arrives; each may be nil.
type Deltas struct {
	Text      func(string)
	Reasoning func(string)
}

func (d Deltas) text(s string) {
	if d.Text != nil && s != "" {
		d.Text(s)
	}
}

func (d Deltas) reasoning(s string) {
	if d.Reasoning != nil && s != "" {
		d.Reasoning(s)
	}
}
