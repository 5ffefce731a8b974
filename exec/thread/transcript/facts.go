package transcript

import (
	"cmp"
	"slices"

	"github.com/rye-build/rye/cas"
)

// maxFacts bounds the distinct items and models of a report.
const maxFacts = 10_000

// others counts the items beyond maxFacts.
var others = Item{Ref: "other items"}

type modelKey struct {
	provider Item
	model    string
}

// facts are counts from the events of a thread's calls.
type facts struct {
	turns, calls int64
	models       map[modelKey]*ModelUse
	tools        map[Item]int64
}

func newFacts() facts { return facts{models: map[modelKey]*ModelUse{}, tools: map[Item]int64{}} }

func (f *facts) tool(i Item, n int64) {
	if _, ok := f.tools[i]; !ok && len(f.tools) >= maxFacts {
		i = others
	}
	f.tools[i] += n
	f.calls += n
}

func (f *facts) model(k modelKey) *ModelUse {
	if f.models[k] == nil {
		if len(f.models) >= maxFacts {
			k = modelKey{provider: others}
		}
		f.models[k] = cmp.Or(f.models[k], &ModelUse{Provider: k.provider, Model: k.model})
	}
	return f.models[k]
}

// add adds the counts of o.
func (f *facts) add(o *facts) {
	f.turns = max(f.turns, o.turns)
	for i, n := range o.tools {
		f.tool(i, n)
	}
	for k, m := range o.models {
		to := f.model(k)
		to.Calls, to.Failed, to.Cost = to.Calls+m.Calls, to.Failed+m.Failed, to.Cost+m.Cost
		addUsage(&to.Usage, m.Usage)
	}
}

func addUsage(u *Usage, o Usage) {
	u.Input, u.Output, u.Reasoning = u.Input+o.Input, u.Output+o.Output, u.Reasoning+o.Reasoning
	u.CacheRead, u.CacheWrite, u.Reported = u.CacheRead+o.CacheRead, u.CacheWrite+o.CacheWrite, u.Reported ||
		o.Reported
}

// lists returns the facts as sorted lists.
func (f *facts) lists() ([]ModelUse, []ToolUse) {
	models, tools := []ModelUse{}, []ToolUse{}
	for _, m := range f.models {
		models = append(models, *m)
	}
	for i, n := range f.tools {
		tools = append(tools, ToolUse{i, n})
	}
	slices.SortFunc(models, func(a, b ModelUse) int {
		return cmp.Or(cmp.Compare(a.Provider.Ref, b.Provider.Ref), cmp.Compare(a.Model, b.Model),
			a.Provider.Digest.Compare(b.Provider.Digest))
	})
	slices.SortFunc(tools, func(a, b ToolUse) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref),
			a.Digest.Compare(b.Digest))
	})
	return models, tools
}

// take counts an event. Its payload fits the schema.
func (v *verifier) take(event *Event) {
	facts := &v.pending
	switch event.Type {
	case TypeRequest:
		// A request may have many messages, so only these members are decoded.
		provider, _ := event.value["provider"].(map[string]any)
		v.asked = modelKey{itemOf(provider), event.value["model"].(string)}
		facts.turns = max(facts.turns, int64(event.value["turn"].(float64)))
	case TypeAnswer, TypeClassified:
		usage, _ := event.value["usage"].(map[string]any)
		cost, _ := event.value["cost"].(float64)
		m := facts.model(v.asked)
		m.settle(usageOf(usage), int64(cost))
		if event.Type == TypeClassified {
			m.Failed++
		}
	case TypeNodeStarted: // a step of a graph is a turn
		facts.turns = max(facts.turns, int64(event.value["step"].(float64)))
	case TypeCallStarted:
		i := itemOf(event.value)
		if i.Ref == "" {
			i.Ref = event.value["name"].(string) // a missing item has only a name
		}
		facts.tool(i, 1)
	default:
		if event.Type.IsEnd() {
			v.end = event
		}
	}
}

// itemOf returns the item in a payload.
func itemOf(m map[string]any) (i Item) {
	i.Ref, _ = m["ref"].(string)
	if text, ok := m["digest"].(string); ok {
		i.Digest, _ = cas.ParseDigest(text) // the schema has checked it
	}
	return i
}

func usageOf(m map[string]any) (u Usage) {
	for name, to := range map[string]*int64{"input": &u.Input, "output": &u.Output, "cache_read": &u.CacheRead,
		"cache_write": &u.CacheWrite, "reasoning": &u.Reasoning} {
		n, _ := m[name].(float64)
		*to = int64(n)
	}
	u.Reported, _ = m["reported"].(bool)
	return u
}

func (m *ModelUse) settle(u Usage, cost int64) {
	m.Calls++
	m.Cost += cost
	addUsage(&m.Usage, u)
}
