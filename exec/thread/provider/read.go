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
func Read(m *model.Model) (*Provider, error) {
	r := &reader{Report: fields.Report{At: value.Pos{Line: 1, Column: 1}}, m: m}
	p := &Provider{Ref: m.Ref, Name: m.Ref.Name(), Tiers: map[string]string{}}
	if m.Tool == nil {
		return nil, fault.New(fault.Validation, "%q is not a tool, so it can't be a provider", m.Ref).On("ref",
			m.Ref.String())
	}
	p.Secrets = m.Tool.Secrets
	r.tool(p, m.Tool)
	r.tiers(p)
	p.prices = r.pricing()
	p.windows, p.outputs = r.limits("context_window"), r.limits("max_output")
	p.Overhead = defaultOverhead
	if v := m.Fields.Get("overhead_tokens"); v != nil {
		p.Overhead = r.tokens(v, "overhead_tokens", 0)
	}
	r.toolUse(p)
	if len(r.Problems) > 0 {
		lines := make([]string, len(r.Problems))
		for i, problem := range r.Sorted() {
			lines[i] = fmt.Sprintf("line %d: %s", problem.At.Line, problem.Message)
		}
		return nil, fault.New(fault.Validation, "%q is not a valid provider", m.Ref).On("ref",
			m.Ref.String()).On("problems", lines).
			List(lines...).Try("rye docs providers")
	}
	return p, nil
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
func (r *reader) object(field string, v *value.Value, known ...string) []value.Entry {
	if v.IsNull() {
		return nil
	}
	if v.Kind != value.Map {
		r.bad(v, field, "must be an object, not %s", v.Kind)
		return nil
	}
	for i := range v.Map {
		if len(known) > 0 && !slices.Contains(known, v.Map[i].Key) {
			r.bad(v.Map[i].Value, field+"."+v.Map[i].Key, "is unknown: expected one of %s", strings.Join(known, ", "))
		}
	}
	return v.Map
}

// tool checks the restrictions of a provider that an ordinary tool doesn't have.
func (r *reader) tool(p *Provider, t *declared.Tool) {
	if t.Type != "http" {
		r.bad(r.m.Fields.Get("tool_type"), "tool_type", `must be "http"`)
	}
	if t.Executor != Executor {
		r.bad(r.m.Fields.Get("executor_id"), "executor_id", "must be %q", Executor)
	}
	p.params = map[string]bool{}
	schema := r.m.Interface().Input
	if m, ok := schema.(map[string]any); ok {
		properties, _ := m["properties"].(map[string]any)
		for name := range properties {
			p.params[name] = true
		}
	}
	for _, name := range []string{"model", "messages", "max_tokens"} {
		if !p.params[name] {
			r.bad(r.m.Fields.Get("input_schema"), "input_schema", "must declare the parameter %q", name)
		}
	}
	raw := t.Config.Get("url")
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(raw.String()))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		strings.ContainsAny(authority(raw.String()), "{}$") {
		r.bad(raw, "config.url", "must be an http or https address with a fixed host")
		return
	}
	p.Host = u.Host
	if t.Network.All {
		r.bad(r.m.Fields.Get("network"), "network", "must be the host of config.url alone")
	}
	for _, host := range t.Network.Hosts {
		if name, _, err := net.SplitHostPort(host); host != u.Host && (err != nil || name != u.Hostname()) &&
			host != u.Hostname() {
			r.bad(r.m.Fields.Get("network"), "network", "must be the host of config.url alone, not %q", host)
		}
	}
	if !t.Network.All && len(t.Network.Hosts) == 0 {
		r.bad(r.m.Fields.Get("network"), "network", "must have the host of config.url: [%s]", u.Host)
	}
}

// authority returns the part of an address between its scheme and its path.
func authority(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func (r *reader) tiers(p *Provider) {
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
		p.Tiers[e.Key] = e.Value.String()
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

func (r *reader) toolUse(p *Provider) {
	v := r.m.Fields.Get("tool_use")
	r.object("tool_use", v, "mode", "response_format", "cache")
	p.Mode, p.Format = Native, v.Get("response_format").String()
	if mode := v.Get("mode"); mode != nil {
		if p.Mode = mode.String(); p.Mode != Native && p.Mode != TextParsed {
			r.bad(mode, "tool_use.mode", "must be %s or %s", Native, TextParsed)
		}
	}
	if p.format = wire.Of(p.Format); p.format == nil {
		r.bad(v.Get("response_format"), "tool_use.response_format", "must be one of %s",
			strings.Join(wire.Formats(), ", "))
	}
	if cache := v.Get("cache"); cache != nil {
		if p.cache = cache.Kind == value.Bool && cache.Text == "true"; cache.Kind != value.Bool {
			r.bad(cache, "tool_use.cache", "must be true or false")
		}
		if p.cache && p.Format != wire.ContentBlocks {
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
