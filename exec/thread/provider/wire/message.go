package wire

// The roles of messages.
const (
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool" // the result of a call
)

// A Message is one of a conversation. Its JSON is part of transcripts.
type Message struct {
	Role  string     `json:"role"`
	Text  string     `json:"text,omitempty"`
	Calls []ToolCall `json:"calls,omitempty"` // of an assistant
	// CallID is the call that a tool's message is the result of, and Failed says that it failed.
	CallID string  `json:"call_id,omitempty"`
	Failed bool    `json:"failed,omitempty"`
	Opaque *Opaque `json:"opaque,omitempty"` // of an assistant: see Answer
}

// An Opaque is what a service wants back unchanged: all blocks of an answer, in the words of its format.
type Opaque struct {
	Format string `json:"format"`
	Blocks []any  `json:"blocks"`
}

// A Tool is offered to a model. The name has letters, digits, "_" and "-", begins with a letter or "_", and has 64
// characters at most. Schema is a JSON Schema; nil is an object without properties.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Schema      map[string]any `json:"schema,omitempty"`
}

// A ToolCall is a model's wish to call a tool. The name is whatever the model wrote.
type ToolCall struct {
	ID    string         `json:"id"` // no other call of the answer has it
	Name  string         `json:"name"`
	Input map[string]any `json:"input,omitempty"`
	// Raw is what the model wrote as arguments if that isn't a JSON object; Input is then nil.
	Raw string `json:"raw,omitempty"`
}

// Usage counts the tokens of one model call. No token is in two categories: Input is what was neither read from a
// cache nor written to one, and Output is without Reasoning where the service tells them apart.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Reasoning  int64 `json:"reasoning"`
	// Reported says that the service gave plausible numbers. Without it the others are 0.
	Reported bool `json:"reported"`
}

// Prompt returns the tokens of the request, cached or not.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// Answered returns the tokens that the model made.
func (u Usage) Answered() int64 { return u.Output + u.Reasoning }

// Why a model stopped.
const (
	StopEnd     = "end"
	StopCalls   = "tool_calls"
	StopLength  = "length"  // max_tokens is reached; the last call may be cut
	StopContext = "context" // the context window is full
	StopRefusal = "refusal" // the model or the service refuses; Text may say why
	StopOther   = "other"
)

// An Answer is what a model said.
type Answer struct {
	Text  string     `json:"text,omitempty"`
	Calls []ToolCall `json:"calls,omitempty"`
	Stop  string     `json:"stop"`
	Usage Usage      `json:"usage"`
	// Opaque is set if the service wants more back than text and calls.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Message returns the answer as the assistant's message for the next request.
func (a *Answer) Message() Message {
	return Message{Role: Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque}
}

// Deltas get an answer while it comes; each may be nil.
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
