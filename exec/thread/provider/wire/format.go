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

// A Format is a service's form of requests and answers.
type Format struct {
	name string
	of   format
}

// Of returns a format by its name, or nil.
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

// A format implements a Format.
type format interface {
	// fill adds the format's parameters of a request.
	fill(params map[string]any, c *conversation)
	// whole reads an unstreamed answer, and blocks the blocks of an Opaque.
	whole(body map[string]any) (*Answer, *Failure)
	blocks(all []any) *Answer
	// events returns a reader for a streamed answer.
	events() events
}

// events reads the events of an answer.
type events interface {
	// event reads one event. It returns a failure that the service reports in the stream.
	event(data map[string]any, to Deltas) *Failure
	// answer returns the answer so far. whole means that the service has ended it.
	answer() (a *Answer, whole bool)
}

// Params returns the parameters of a request.
func (f *Format) Params(said Conversation) (map[string]any, error) {
	messages, err := conversed(said.Messages)
	if err == nil {
		err = checkTools(said.Tools)
	}
	if err != nil {
		return nil, err
	}
	said.Messages, said.System = messages, valid(said.System)
	inner := &conversation{said, f}
	if said.Parsed {
		inner.asText()
	}
	params := map[string]any{}
	if said.Stream {
		params["stream"], params["mode"] = true, "stream"
	}
	f.of.fill(params, inner)
	return params, nil
}

// Body reads an unstreamed answer, a JSON value. parsed means that calls may be text.
func (f *Format) Body(body any, parsed bool) (*Answer, *Failure) {
	m := object(body)
	switch {
	case m == nil:
		return nil, nonsense()
	case m["error"] != nil:
		return nil, Reported(m)
	}
	a, failure := f.of.whole(m)
	if failure == nil {
		failure = f.finish(a, parsed)
	}
	if failure != nil {
		return nil, failure
	}
	return a, nil
}

// Stream returns a sink for the events of one answer. The goroutine that calls Emit calls the Deltas.
func (f *Format) Stream(to Deltas) *Stream {
	return &Stream{format: f, events: f.of.events(), deltas: to}
}
