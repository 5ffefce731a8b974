package provider_test

import (
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// parse reads the text of an item.
func parse(t testing.TB, id, text string) *model.Model {
	t.Helper()
	kinds := model.Builtin()
	i := slices.IndexFunc(kinds, func(k *model.Kind) bool { return k.Name == "tool" })
	m := kinds[i].Read(model.Ref{Kind: "tool", ID: id}, "tools/"+id+".yaml", []byte(text))
	if m.Invalid() {
		t.Fatalf("%s: %v", id, m.Problems)
	}
	return m
}

func read(t testing.TB, id, text string) *provider.Provider {
	t.Helper()
	p, err := provider.Read(parse(t, id, text))
	must(t, err)
	return p
}

// fromLibrary reads the library's providers.
func fromLibrary(t testing.TB) (all []*provider.Provider) {
	t.Helper()
	for _, name := range shipped {
		b, err := fs.ReadFile(std.FS(), "tools/rye/agent/providers/"+name+".yaml")
		must(t, err)
		all = append(all, read(t, "rye/agent/providers/"+name, string(b)))
	}
	return all
}

// acme is a provider that a project adds, as YAML alone.
const acme = `version: "1.0.0"
tool_type: http
executor_id: rye/core/primitives/http_client
category: acme
description: Asks the models of Acme
risk: money
network: [HOST]
tier_mapping: {fast: acme-small, acme: acme-large}
pricing:
  acme-small: {input: "0.80", output: 4, cache_read: 0.08}
  acme-large: {input: "0.000000001", output: "1000000", reasoning: "1000000"}
context_window: {acme-small: 1000, "*": 2000}
max_output: 500
overhead_tokens: 0
tool_use: {mode: text_parsed, response_format: chat_completion}
config:
  method: POST
  url: http://HOST/v1/chat/completions
  body: {model: "{model}", max_tokens: "{max_tokens}", messages: "{messages}", temperature: "{temperature}"}
input_schema:
  type: object
  required: [model, max_tokens, messages]
  additionalProperties: false
  properties:
    model: {type: string}
    max_tokens: {type: integer}
    messages: {type: array}
    temperature: {type: number}
`

// TestYAML: a further provider is YAML and nothing else. This one has no key, no stream and no tools of its own.
func TestYAML(t *testing.T) {
	s := modeltest.New(t,
		modeltest.Turn{
			Text:  `Let me see. <invoke name="add"><parameter name="a">1</parameter><parameter name="b">[2]</parameter></invoke>`,
			Usage: wire.Usage{Input: 1000, Output: 10}},
		modeltest.Turn{Text: "3"})
	w := newWorld(t, map[string]string{"acme/models": strings.ReplaceAll(acme, "HOST", s.Host)})
	p := w.provider("acme/models")
	if p.Streams() || p.Secrets != nil || p.Host != s.Host || p.Overhead != 0 || p.Name != "models" ||
		p.String() != "acme/models" {
		t.Errorf("%+v", p)
	}
	r := provider.Request{Model: "acme-small", Stream: true, Tools: []provider.Tool{adder}, MaxTokens: 9000,
		Options:  map[string]any{"temperature": 0.5},
		Messages: []provider.Message{{Role: provider.User, Text: "1 + 2?"}}}
	a, err := w.ask(p, r, provider.Deltas{})
	if err != nil || len(a.Calls) != 1 || a.Calls[0].Input["a"] != "1" || a.Stop != provider.StopCalls {
		t.Fatalf("%+v, %v", a, err)
	}
	if n, known := p.Cost("acme-small", a.Usage); !known || n != 840_000 {
		t.Errorf("it costs %d, %v", n, known)
	}
	r.Messages = append(r.Messages, a.Message(),
		provider.Message{Role: provider.ToolRole, CallID: a.Calls[0].ID, Text: "3"})
	if a, err = w.ask(p, r, provider.Deltas{}); err != nil || a.Text != "3" {
		t.Errorf("%+v, %v, %q", a, err, s.Refused())
	}
	body := s.Requests()[1].Body
	if body["max_tokens"] != 500.0 || body["temperature"] != 0.5 || body["stream"] != nil || body["tools"] != nil {
		t.Errorf("%v", body)
	}
	if messages := body["messages"].([]any); len(messages) != 4 ||
		!strings.Contains(messages[3].(map[string]any)["content"].(string), `<result name="add"`) {
		t.Errorf("%v", messages)
	}
}

// TestDocumented: the provider that the documentation shows is one, in the place that it says.
func TestDocumented(t *testing.T) {
	page, err := fs.ReadFile(std.FS(), "knowledge/rye/providers.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "## A provider of your own")
	before, text, ok := strings.Cut(text, " <<'EOF'\nversion:")
	text, _, end := strings.Cut("version:"+text, "\nEOF\n")
	_, place, named := strings.Cut(before, "$ cat > .ai/tools/")
	id, _, _ := strings.Cut(place, ".yaml")
	if !ok || !end || !named {
		t.Fatalf("no example: %s", page)
	}
	w := newWorld(t, map[string]string{id: text + "\n"})
	all, err := w.Providers(t.Context())
	must(t, err)
	if !slices.ContainsFunc(all, func(it *ai.Item) bool { return it.Ref.ID == id && provider.Is(it.Model) }) {
		t.Fatalf("%s is not found among %d providers", id, len(all))
	}
	c, err := provider.Resolve([]*provider.Provider{w.provider(id)}, "high")
	if err != nil || c.Model != "acme-large" || c.Provider.Host != "models.acme.example" ||
		c.Provider.MaxOutput(c.Model) != 8192 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestUnknownModel: of two providers with one name, the error has the ids.
func TestUnknownModel(t *testing.T) {
	local := func(id string) *provider.Provider {
		ref := model.Ref{Kind: "tool", ID: id}
		return &provider.Provider{Ref: ref, Name: ref.Name(), Tiers: map[string]string{"high": "m"}}
	}
	_, err := provider.Resolve([]*provider.Provider{local("acme/local"), local("rye/agent/providers/local"),
		local("acme/other")}, "nope")
	f := fault.Of(err)
	if got := strings.Join(f.Why, "; "); !strings.Contains(got,
		"acme/local: m; rye/agent/providers/local: m; other: m") {
		t.Errorf("%v: %s", err, got)
	}
}

// TestLibrary: every shipped provider maps the tiers that directives name, and all of its models have prices and a
// window.
func TestLibrary(t *testing.T) {
	all := fromLibrary(t)
	for _, p := range all {
		for _, tier := range []string{"fast", "general", "high", "max", "low", "orchestrator", "haiku", "sonnet",
			"opus"} {
			if p.Tiers[tier] == "" {
				t.Errorf("%s doesn't map %s", p, tier)
			}
		}
		for tier, id := range p.Tiers {
			usage := provider.Usage{Input: 1, Output: 1, CacheRead: 1, CacheWrite: 1, Reasoning: 1, Reported: true}
			cost, known := p.Cost(id, usage)
			worst, too := p.Worst(id, 3, 2)
			if !known || !too || worst < cost || (cost == 0) != (p.Name == "local") ||
				p.Window(id) < 2*p.MaxOutput(id) || !p.Streams() {
				t.Errorf("%s, %s: cost %d, %v, at worst %d, %v; window %d, output %d", p, id, cost, known, worst, too,
					p.Window(id), p.MaxOutput(id))
			}
			c, err := provider.Resolve(all, p.Name+"/"+tier)
			if err != nil || c.Provider != p || c.Model != id {
				t.Errorf("%s/%s: %v, %v", p.Name, tier, c, err)
			}
		}
	}
	if got := strings.Join(all[0].Secrets, " ") + all[2].Host; got != "ANTHROPIC_API_KEY127.0.0.1:11434" {
		t.Error(got)
	}
}

func TestResolve(t *testing.T) {
	all := append(fromLibrary(t), read(t, "acme/openai",
		strings.NewReplacer("HOST", "acme.example", "acme-large", "gpt-4o").Replace(acme)))
	for name, want := range map[string]string{
		"fast":                              "rye/agent/providers/anthropic/claude-haiku-4-5-20251001",
		"acme":                              "acme/openai/gpt-4o",
		"gpt4o":                             "rye/agent/providers/openai/gpt-4o",
		"gpt-5":                             "rye/agent/providers/openai_responses/gpt-5",
		"o3":                                "rye/agent/providers/openai/o3",
		"claude-haiku-4-5":                  "rye/agent/providers/anthropic/claude-haiku-4-5-20251001",
		"local/llama3.2:3b":                 "rye/agent/providers/local/llama3.2:3b",
		"gemini/max":                        "rye/agent/providers/gemini/gemini-2.5-pro",
		"gemini/models/x":                   "rye/agent/providers/gemini/models/x",
		"acme/openai/fast":                  "acme/openai/acme-small",
		"rye/agent/providers/openai/gpt-4o": "rye/agent/providers/openai/gpt-4o",
	} {
		c, err := provider.Resolve(all, name)
		if err != nil || c.String() != want {
			t.Errorf("%s is %v, %v, want %s", name, c, err, want)
			continue
		}
		if again, err := provider.Resolve(all, c.String()); err != nil || again != c {
			t.Errorf("%s is %v, %v", c, again, err)
		}
	}
	for name, want := range map[string]fault.Code{
		"gpt-4o": fault.Ambiguous, "openai/gpt-4o": fault.Ambiguous, "claude": fault.Ambiguous,
		"openai/": fault.NotFound,
		"gtp-5":   fault.NotFound, "": fault.NotFound, "none/gpt-4o": fault.NotFound,
		"gpt-5-mini-2025-08-07": fault.NotFound,
	} {
		c, err := provider.Resolve(all, name)
		f := fault.Of(err)
		if err == nil || f.Code != want {
			t.Errorf("%s is %v, %v, want %s", name, c, err, want)
			continue
		}
		why := strings.Join(f.Why, "\n")
		if want == fault.NotFound && !strings.Contains(why, "tiers: acme, fast, general, gpt4o, ") ||
			want == fault.Ambiguous && !strings.Contains(why, "/claude-") &&
				!strings.Contains(why, "acme/openai/gpt-4o") {
			t.Errorf("%s: %s", name, why)
		}
	}
	if _, err := provider.Resolve(all, "gtp-5"); !strings.Contains(strings.Join(fault.Of(err).Why, " "),
		"did you mean gpt-5?") {
		t.Errorf("%v", fault.Of(err).Why)
	}
	if _, err := provider.Resolve(nil, "fast"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestCost(t *testing.T) {
	p := read(t, "acme/models", strings.ReplaceAll(acme, "HOST", "acme.example"))
	for _, c := range []struct {
		model string
		usage provider.Usage
		want  int64 // -1: unknown
	}{
		{"acme-small", provider.Usage{Input: 1_000_000, Output: 1_000_000, Reported: true}, 4_800_000_000},
		{"acme-small", provider.Usage{Input: 1, CacheRead: 1, Reported: true}, 880},
		{"acme-small", provider.Usage{Reported: true}, 0},
		{"acme-small", provider.Usage{Input: 1}, -1},
		{"acme-small", provider.Usage{Input: 1, CacheWrite: 1, Reported: true}, -1},
		{"acme-small", provider.Usage{Input: 1, Reasoning: 1, Reported: true}, 4800},
		{"acme-large", provider.Usage{Input: 1, Reported: true}, 1}, // rounded up
		{"acme-large", provider.Usage{Input: 1, Output: 100_000_000, Reported: true}, 100_000_000_000_000_001},
		{"acme-large", provider.Usage{Output: math.MaxInt64, Reasoning: math.MaxInt64, Reported: true}, math.MaxInt64},
		{"acme-other", provider.Usage{Reported: true}, -1},
	} {
		n, known := p.Cost(c.model, c.usage)
		if known != (c.want >= 0) || known && n != c.want {
			t.Errorf("%s, %+v: %d, %v, want %d", c.model, c.usage, n, known, c.want)
		}
	}
	for model, want := range map[string]int64{"acme-small": 4_800_000, "acme-large": 1_000_000_000_000 + 1,
		"other": -1} {
		if n, known := p.Worst(model, 1000, 1000); known != (want >= 0) || known && n != want {
			t.Errorf("%s: at worst %d, %v, want %d", model, n, known, want)
		}
	}
	if n, known := p.Worst("acme-small", -5, -5); n != 0 || !known {
		t.Errorf("less than nothing costs %d, %v", n, known)
	}
	anthropic := fromLibrary(t)[0]
	if n, _ := anthropic.Worst("claude-sonnet-4-5-20250929", 1_000_000, 1_000_000); n != 18_750_000_000 {
		t.Errorf("the dearest input is written to the cache: %d", n)
	}
	if got := p.Models(); !slices.Equal(got, []string{"acme-large", "acme-small"}) {
		t.Error(got)
	}
	if p.Window("acme-small") != 1000 || p.Window("x") != 2000 || p.MaxOutput("x") != 500 {
		t.Error("limits of models")
	}
}

// TestRead: the error lists everything that is wrong with a provider, each with its line.
func TestRead(t *testing.T) {
	for from, c := range map[string]struct{ to, want string }{
		"tool_type: http": {"tool_type: yaml", `line 2: tool_type must be "http"`},
		"executor_id: rye/core/primitives/http_client": {"executor_id: rye/core/primitives/subprocess",
			`line 3: executor_id must be "rye/core/primitives/http_client"`},
		"network: [HOST]": {"network: [other.example, HOST]",
			`line 7: network must be the host of config.url alone, not "other.example"`},
		"network:  [HOST]": {"network: all", "line 7: network must be the host of config.url alone"},
		"network: [HOST] ": {"", "network must have the host of config.url: [HOST]"},
		"tier_mapping: {fast: acme-small, acme: acme-large}": {"tier_mapping: {}",
			"tier_mapping must map at least one tier to a model"},
		"tier_mapping: {fast: acme-small,": {"tier_mapping: {fast: [acme-small],",
			"tier_mapping.fast must be the id of a model"},
		"tier_mapping:  {fast: acme-small, acme: acme-large}": {"tier_mapping: fast",
			"tier_mapping must be an object, not string"},
		`acme-small: {input: "0.80"`: {`acme-small: {input: "-0.80"`,
			"pricing.acme-small.input must be dollars for a million tokens"},
		`acme-small: {input:  "0.80"`: {`acme-small: {input: "1e-6"`,
			"pricing.acme-small.input must be dollars"},
		`acme-small: {input:   "0.80"`: {`acme-small: {input: ".8"`,
			"pricing.acme-small.input must be dollars"},
		`acme-small: {input:    "0.80"`: {`acme-small: {input: "8."`,
			"pricing.acme-small.input must be dollars"},
		`acme-small: {input:     "0.80"`: {`acme-small: {input: "1000000.01"`,
			"pricing.acme-small.input must be dollars"},
		`acme-small: {input:      "0.80"`: {`acme-small: {input: "0.1234567891"`,
			"pricing.acme-small.input must be dollars"},
		`acme-small: {input:       "0.80"`: {`acme-small: {input: [1]`,
			"pricing.acme-small.input must be dollars"},
		"cache_read: 0.08": {"cached: 0.08",
			"pricing.acme-small.cached is unknown: expected one of input, output, cache_read, cache_write, reasoning"},
		`acme-small: {input: "0.80", output: 4, cache_read: 0.08}`: {"acme-small:",
			"pricing.acme-small must be an object"},
		"context_window: {acme-small: 1000": {"context_window: {acme-small: 0",
			"context_window.acme-small must be an integer from 1 to 100000000"},
		"max_output: 500":    {"max_output: many", "max_output must be an integer from 1"},
		"overhead_tokens: 0": {"overhead_tokens: -1", "overhead_tokens must be an integer from 0"},
		"mode: text_parsed":  {"mode: magic", "tool_use.mode must be native or text_parsed"},
		"response_format: chat_completion": {"response_format: morse",
			"tool_use.response_format must be one of chat_completion, content_blocks, gemini, responses"},
		"response_format:  chat_completion": {"format: chat_completion",
			"tool_use.format is unknown: expected one of mode, response_format, cache"},
		"response_format: chat_completion}": {"response_format: chat_completion, cache: true}",
			"tool_use.cache needs response_format: content_blocks"},
		"response_format:  chat_completion}": {"response_format: chat_completion, cache: 1}",
			"tool_use.cache must be true or false"},
		"url: http://HOST/": {"url: http://{model}.example/",
			"config.url must be an http or https address with a fixed host"},
		"url:  http://HOST/":            {"url: ftp://HOST/", "config.url must be an http or https address"},
		"    messages: {type: array}\n": {"", `input_schema must declare the parameter "messages"`},
	} {
		// The number of spaces only keeps the keys of this map apart.
		old := strings.Join(strings.FieldsFunc(from, func(r rune) bool { return r == ' ' }), " ")
		if strings.HasPrefix(from, " ") {
			old = from
		}
		if !strings.Contains(acme, old) {
			t.Fatalf("no %q", old)
		}
		text := strings.ReplaceAll(strings.Replace(acme, old, c.to, 1), "HOST", "acme.example")
		_, err := provider.Read(parse(t, "acme/models", text))
		f := fault.Of(err)
		if want := strings.ReplaceAll(c.want, "HOST", "acme.example"); err == nil || f.Code != fault.Validation ||
			!strings.Contains(strings.Join(f.Why, "\n"), want) {
			t.Errorf("%s: %v, %q, want %q", c.to, err, f.Why, want)
		}
	}
	broken := strings.NewReplacer("HOST", "acme.example", "http\n", "x\n", "morse", "x", "max_output: 500",
		"max_output: x").Replace(acme)
	if _, err := provider.Read(parse(t, "acme/models", broken)); len(fault.Of(err).Why) != 2 {
		t.Errorf("%q", fault.Of(err).Why)
	}
	good := strings.ReplaceAll(acme, "HOST", "acme.example")
	if provider.Is(parse(t, "acme/tool", strings.Replace(good, "tier_mapping", "tiers", 1))) ||
		!provider.Is(parse(t, "acme/models", good)) {
		t.Error("what a provider is")
	}
	if _, err := provider.Read(&model.Model{Ref: model.Ref{Kind: "knowledge", ID: "acme/note"}}); err == nil {
		t.Error("a note is taken for a provider")
	}
}

// TestParams: what a provider's item doesn't take is refused before the call.
func TestParams(t *testing.T) {
	p := read(t, "acme/models", strings.NewReplacer("HOST", "acme.example", "mode: text_parsed",
		"mode: native").Replace(acme))
	hello := []provider.Message{{Role: provider.User, Text: "Hi"}}
	for want, r := range map[string]provider.Request{
		`invalid request to "acme/models": its input_schema doesn't declare "tools"`: {Messages: hello,
			Tools: []provider.Tool{adder}},
		`doesn't declare "top_p"`:             {Messages: hello, Options: map[string]any{"top_p": 1}},
		`the option "messages" is set by rye`: {Messages: hello, Options: map[string]any{"messages": 1}},
		"the last message must be the user's": {},
	} {
		if _, err := p.Params(r); err == nil || !strings.Contains(err.Error(), want) ||
			fault.CodeOf(err) != fault.Validation {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, p := range fromLibrary(t) {
		given, err := p.Params(provider.Request{Model: "m", System: "S", Messages: hello,
			Tools: []provider.Tool{adder}})
		must(t, err)
		if given["max_tokens"] != p.MaxOutput("m") || given["stream"] != nil ||
			p.Bound(given) < p.Overhead+int64(len("Hi")+len(adder.Description)) {
			t.Errorf("%s: %v, bound %d", p, slices.Collect(maps.Keys(given)), p.Bound(given))
		}
		longer, err := p.Params(provider.Request{Model: "m", System: "S",
			Messages: []provider.Message{{Role: provider.User, Text: "Hi" + strings.Repeat("x", 1000)}},
			Tools:    []provider.Tool{adder}})
		must(t, err)
		if n := p.Bound(longer) - p.Bound(given); n != 1000 {
			t.Errorf("%s: 1000 bytes more are %d", p, n)
		}
	}
}

// TestBoundCountsAll: all bytes of a request count in what it may cost at most: a thread would spend beyond its budget
// by what is left out.
func TestBoundCountsAll(t *testing.T) {
	p := fromLibrary(t)[0]
	given := map[string]any{"system": "s", "messages": []any{"m"}, "tools": []any{"t"}}
	bound := p.Bound(given)
	for name, longer := range map[string]any{"system": "s" + strings.Repeat("x", 1000),
		"messages": []any{"m" + strings.Repeat("x", 1000)}, "tools": []any{"t" + strings.Repeat("x", 1000)}} {
		more := maps.Clone(given)
		more[name] = longer
		if n := p.Bound(more) - bound; n != 1000 {
			t.Errorf("1000 bytes more of %s are %d", name, n)
		}
	}
}

// TestAnswer: what a call gives without a stream as sink, and how it may end.
func TestAnswer(t *testing.T) {
	p := fromLibrary(t)[3]
	events := []any{
		map[string]any{"data": map[string]any{"choices": []any{map[string]any{"delta": map[string]any{"content": "a"},
			"finish_reason": "stop"}}}}}
	value := func(body any) map[string]any {
		return map[string]any{"status_code": int64(200),
			"headers": map[string]any{"x-request-id": "r", "retry-after-ms": "1500"}, "body": body}
	}
	if a, err := p.Answer(&primitive.Result{Value: value(events)}, nil); err != nil || a.Text != "a" {
		t.Errorf("%+v, %v", a, err)
	}
	for ended, kind := range map[string]string{"timeout": "TimeoutError", "cancelled": "CancelledError",
		"output": "LimitError"} {
		_, err := p.Answer(&primitive.Result{Value: value(nil), Failed: true, Ended: ended, Failure: "it ended"}, nil)
		f, ok := err.(*provider.Failure)
		if !ok || f.Type != kind || f.Message != "it ended" || f.RequestID != "r" || f.After.Milliseconds() != 1500 {
			t.Errorf("%s: %+v", ended, err)
		}
	}
	_, err := p.Answer(&primitive.Result{Failed: true, Failure: "no connection",
		Trouble: &primitive.Trouble{Type: "ConnectionError"}}, nil)
	if f, ok := err.(*provider.Failure); !ok || f.Type != "ConnectionError" || fault.CodeOf(f) != fault.Unavailable {
		t.Errorf("%+v", err)
	}
	if _, err := p.Answer(&primitive.Result{Value: "text"}, nil); err == nil {
		t.Error("text is taken for an answer")
	}
}
