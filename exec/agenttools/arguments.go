package agenttools

import (
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/manifest/jcs"
)

// Arguments are the arguments of an agent's tools. Each tool has some of them: search the query, the scope and the
// limit, the others an item, and execute its parameters too.
type Arguments struct {
	Query, Scope string
	Limit        int // 0 for the default
	Kind, ID     string
	Parameters   map[string]any // never nil
	Dry          bool
}

// ReadArguments reads arguments from JSON's values, which a schema has checked.
func ReadArguments(values map[string]any) *Arguments {
	text := func(name string) string { s, _ := values[name].(string); return s }
	limit, _ := jcs.Number(values["limit"])
	a := &Arguments{Query: text("query"), Scope: text("scope"), Limit: int(limit), Kind: text("item_type"),
		ID: BareID(text("item_type"), text("item_id"))}
	if a.Parameters, _ = values["parameters"].(object); a.Parameters == nil {
		a.Parameters = object{}
	}
	a.Dry, _ = values["dry_run"].(bool)
	return a
}

// Ref returns the item.
func (a *Arguments) Ref() (model.Ref, error) { return item{a.Kind, a.ID}.ref() }
