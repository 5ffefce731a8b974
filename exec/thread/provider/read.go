package provider

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// Executor is the id of the primitive that runs providers.
const Executor = "rye/core/primitives/http_client"

// The values of tool_use.mode.
const (
	Native     = "native"
	TextParsed = "text_parsed"
)

const (
	defaultOutput   = 8192
	defaultOverhead = 1000
	anyModel        = "*" // any other model, in prices and limits
)

// A Provider is a service of language models, as described by its item. It is immutable and safe for concurrent
// use.
type Provider struct {
	Ref      model.Ref
	Name     string            // the last segment of the id
	Tiers    map[string]string // the model of each tier
	Mode     string            // how tools are offered: Native or TextParsed
	Format   string            // of requests and answers
	Overhead int64             // most tokens that the service adds to the input
	Secrets  []string          // required by a call
	Host     string            // of the url, with its port if any
	Lister   string            // the tool that lists the service's models, "" for none
	Start    string            // the command that starts a server on this machine, "" for none

	address *url.URL // config.url
	format  *wire.Format
	cache   bool // mark the parts that may be cached
	params  map[string]bool
	prices  map[string]prices
	windows map[string]int64
	outputs map[string]int64
}

// Is reports whether an item is a provider, valid or not.
func Is(m *model.Model) bool { return m.IsProvider() }

// Read reads a provider from its item. The error lists all problems.
func Read(model *model.Model) (*Provider, error) {
	reader := &reader{Report: fields.Report{At: value.Pos{Line: 1, Column: 1}}, m: model}
	provider := &Provider{Ref: model.Ref, Name: model.Ref.Name(), Tiers: map[string]string{}}
	if model.Tool == nil {
		return nil, fault.New(fault.Validation, "%q is not a tool, so it can't be a provider", model.Ref).On("ref",
			model.Ref.String())
	}
	provider.Secrets = model.Tool.Secrets
	reader.tool(provider, model.Tool)
	reader.tiers(provider)
	provider.prices = reader.pricing()
	provider.windows, provider.outputs = reader.limits("context_window"), reader.limits("max_output")
	provider.Overhead = defaultOverhead
	if v := model.Fields.Get("overhead_tokens"); v != nil {
		provider.Overhead = reader.tokens(v, "overhead_tokens", 0)
	}
	reader.toolUse(provider)
	if v := model.Fields.Get("models"); !v.IsNull() {
		if provider.Lister = v.String(); portable.CheckID(provider.Lister) != nil {
			reader.bad(v, "models", "must be the id of a tool that lists the service's models")
		}
	}
	if v := model.Fields.Get("start"); !v.IsNull() {
		if provider.Start = v.String(); provider.Start == "" || strings.ContainsAny(provider.Start, "\r\n") {
			reader.bad(v, "start", "must be a command on one line")
		}
	}
	if len(reader.Problems) > 0 {
		lines := make([]string, len(reader.Problems))
		for i, problem := range reader.Sorted() {
			lines[i] = fmt.Sprintf("line %d: %s", problem.At.Line, problem.Message)
		}
		return nil, fault.New(fault.Validation, "%q is not a valid provider", model.Ref).On("ref",
			model.Ref.String()).On("problems", lines).
			List(lines...).Try("rye docs providers")
	}
	return provider, nil
}

// A reader collects the problems of an item.
type reader struct {
	fields.Report
	m *model.Model
}

func (r *reader) bad(v *value.Value, field, format string, args ...any) {
	r.Bad(v, field, field+" "+format, args...)
}

// object returns the entries of a map, or nothing if it is missing. It reports unknown keys.
func (r *reader) object(field string, val *value.Value, known ...string) []value.Entry {
	if val.IsNull() {
		return nil
	}
	if val.Kind != value.Map {
		r.bad(val, field, "must be an object, not %s", val.Kind)
		return nil
	}
	for i := range val.Map {
		if len(known) > 0 && !slices.Contains(known, val.Map[i].Key) {
			r.bad(val.Map[i].Value, field+"."+val.Map[i].Key, "is unknown: expected one of %s",
				strings.Join(known, ", "))
		}
	}
	return val.Map
}

// tool checks the restrictions of a provider that an ordinary tool doesn't have.
func (r *reader) tool(provider *Provider, tool *declared.Tool) {
	if tool.Type != "http" {
		r.bad(r.m.Fields.Get("tool_type"), "tool_type", `must be "http"`)
	}
	if tool.Executor != Executor {
		r.bad(r.m.Fields.Get("executor_id"), "executor_id", "must be %q", Executor)
	}
	provider.params = map[string]bool{}
	schema := r.m.Interface().Input
	if m, ok := schema.(map[string]any); ok {
		properties, _ := m["properties"].(map[string]any)
		for name := range properties {
			provider.params[name] = true
		}
	}
	for _, name := range []string{"model", "messages", "max_tokens"} {
		if !provider.params[name] {
			r.bad(r.m.Fields.Get("input_schema"), "input_schema", "must declare the parameter %q", name)
		}
	}
	raw := tool.Config.Get("url")
	address, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(raw.String()))
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" ||
		strings.ContainsAny(authority(raw.String()), "{}$") {
		r.bad(raw, "config.url", "must be an http or https address with a fixed host")
		return
	}
	provider.Host, provider.address = address.Host, address
	if tool.Network.All {
		r.bad(r.m.Fields.Get("network"), "network", "must be the host of config.url alone")
	}
	for _, host := range tool.Network.Hosts {
		if name, _, err := net.SplitHostPort(host); host != address.Host &&
			(err != nil || name != address.Hostname()) &&
			host != address.Hostname() {
			r.bad(r.m.Fields.Get("network"), "network", "must be the host of config.url alone, not %q", host)
		}
	}
	if !tool.Network.All && len(tool.Network.Hosts) == 0 {
		r.bad(r.m.Fields.Get("network"), "network", "must have the host of config.url: [%s]", address.Host)
	}
}

// authority returns the part of an address between its scheme and its path.
func authority(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func (r *reader) tiers(provider *Provider) {
	v := r.m.Fields.Get("tier_mapping")
	entries := r.object("tier_mapping", v)
	if len(entries) == 0 {
		r.bad(v, "tier_mapping", "must map at least one tier to a model")
	}
	for i := range entries {
		e := &entries[i]
		if e.Value.String() == "" {
			r.bad(e.Value, "tier_mapping."+e.Key, "must be the id of a model")
			continue
		}
		provider.Tiers[e.Key] = e.Value.String()
	}
}

// tokens reads a number of tokens.
func (r *reader) tokens(v *value.Value, field string, least int64) int64 {
	n, ok := v.Int()
	if !ok || n < least || n > wire.MaxTokens {
		r.bad(v, field, "must be an integer from %d to %d", least, int64(wire.MaxTokens))
		return 0
	}
	return n
}

// limits reads a number of tokens for all models, or one per model.
func (r *reader) limits(field string) map[string]int64 {
	v := r.m.Fields.Get(field)
	all := map[string]int64{}
	switch {
	case v.IsNull():
	case v.Kind == value.Map:
		for i := range v.Map {
			all[v.Map[i].Key] = r.tokens(v.Map[i].Value, field+"."+v.Map[i].Key, 1)
		}
	default:
		all[anyModel] = r.tokens(v, field, 1)
	}
	return all
}

func (r *reader) toolUse(provider *Provider) {
	val := r.m.Fields.Get("tool_use")
	r.object("tool_use", val, "mode", "response_format", "cache")
	provider.Mode, provider.Format = Native, val.Get("response_format").String()
	if mode := val.Get("mode"); mode != nil {
		if provider.Mode = mode.String(); provider.Mode != Native && provider.Mode != TextParsed {
			r.bad(mode, "tool_use.mode", "must be %s or %s", Native, TextParsed)
		}
	}
	if provider.format = wire.Of(provider.Format); provider.format == nil {
		r.bad(val.Get("response_format"), "tool_use.response_format", "must be one of %s",
			strings.Join(wire.Formats(), ", "))
	}
	if cache := val.Get("cache"); cache != nil {
		if provider.cache = cache.Kind == value.Bool && cache.Text == "true"; cache.Kind != value.Bool {
			r.bad(cache, "tool_use.cache", "must be true or false")
		}
		if provider.cache && provider.Format != wire.ContentBlocks {
			r.bad(cache, "tool_use.cache", "needs response_format: %s; other services cache by themselves",
				wire.ContentBlocks)
		}
	}
}

// Models returns the models that the item names, sorted.
func (p *Provider) Models() []string {
	all := map[string]bool{}
	for _, id := range p.Tiers {
		all[id] = true
	}
	for id := range p.prices {
		all[id] = id != anyModel
	}
	maps.DeleteFunc(all, func(_ string, named bool) bool { return !named })
	return slices.Sorted(maps.Keys(all))
}

// Window returns the most tokens of a request and its answer together, or 0 if unknown.
func (p *Provider) Window(model string) int64 { return limit(p.windows, model, 0) }

// MaxOutput returns the most tokens of an answer.
func (p *Provider) MaxOutput(model string) int64 { return limit(p.outputs, model, defaultOutput) }

func limit(values map[string]int64, model string, otherwise int64) int64 {
	for _, key := range []string{model, anyModel} {
		if n, ok := values[key]; ok {
			return n
		}
	}
	return otherwise
}

// Streams reports whether answers can be streamed.
func (p *Provider) Streams() bool { return p.params["mode"] }

// String returns the id of the item.
func (p *Provider) String() string { return p.Ref.ID }
