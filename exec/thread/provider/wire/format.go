package wire

// The formats.
const (
	ContentBlocks  = "content_blocks"
	ChatCompletion = "chat_completion"
	Responses      = "responses"
	Gemini         = "gemini"
)

// Formats lists the formats, sorted.
func Formats() []string { return []string{ChatCompletion, ContentBlocks, Gemini, Responses} }

// A Format is how a service writes requests and answers.
type Format struct {
	name string
	of   format
}

// Of returns a format by its name; nil if there is none.
func Of(name string) *Format {
	switch name {
	case ContentBlocks:
		return &Format{name, blocksFormat{}}
	case ChatCompletion:
		return &Format{name, chatFormat{}}
	case Responses:
		return &Format{name, responsesFormat{}}
	case Gemini:
		return &Format{name, geminiFormat{}}
	}
	return nil
}

// String returns the name.
func (f *Format) String() string { return f.name }

// format is what the formats differ in.
type format interface {
	// fill adds the parameters of a request that are the format's own.
	fill(params map[string]any, c *conversation)
	// whole reads an answer that is one body, and blocks one that is Opaque.
	whole(body map[string]any) (*Answer, *Failure)
	blocks(all []any) *Answer
	// events reads an answer that comes in events.
	events() events
}

// events reads the events of an answer.
type events interface {
	// event reads one event. A failure is one that the service tells in the stream.
	event(data map[string]any, to Deltas) *Failure
	// answer returns what was read. whole says that the service has ended the answer.
	answer() (a *Answer, whole bool)
}

// Params returns the parameters of a request.
func (f *Format) Params(c Conversation) (map[string]any, error) {
	messages, err := conversed(c.Messages)
	if err == nil {
		err = checkTools(c.Tools)
	}
	if err != nil {
		return nil, err
	}
	c.Messages, c.System = messages, valid(c.System)
	inner := &conversation{c, f}
	if c.Parsed {
		inner.asText()
	}
	params := map[string]any{}
	if c.Stream {
		params["stream"], params["mode"] = true, "stream"
	}
	f.of.fill(params, inner)
	return params, nil
}

// Body reads an answer that is one body, in JSON's values. parsed says that calls may be text.
func (f *Format) Body(body any, parsed bool) (*Answer, *Failure) {
	m := object(body)
	switch {
	case m == nil:
		return nil, nonsense()
	case m["error"] != nil:
		return nil, Reported(m)
	}
	a, no := f.of.whole(m)
	if no == nil {
		no = f.finish(a, parsed)
	}
	if no != nil {
		return nil, no
	}
	return a, nil
}

// Stream returns a sink for the events of one answer. Deltas are given from the goroutine that calls Emit.
func (f *Format) Stream(to Deltas) *Stream {
	return &Stream{format: f, events: f.of.events(), deltas: to}
}
