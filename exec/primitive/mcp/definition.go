package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// Defining lists what of a tool its definition consists of.
func Defining() []string {
	return []string{"annotations", "description", "inputSchema", "name", "outputSchema", "title"}
}

// Definition returns the digest of what a server announces of a tool: JSON's values, as under tools of what it
// announces. Members that don't define a tool don't count.
func Definition(tool map[string]any) (cas.Digest, error) {
	defining := map[string]any{}
	for _, name := range Defining() {
		if v := tool[name]; v != nil && v != "" {
			defining[name] = v
		}
	}
	text, err := jcs.Append(nil, defining)
	if err != nil {
		return cas.Digest{}, fmt.Errorf("the definition of the tool %q: %w", tool["name"], err)
	}
	return cas.Sum(text), nil
}

// announced returns a tool as this package shows it, with its definition.
func announced(t *mcp.Tool) (map[string]any, error) {
	all, err := object(t)
	if err != nil {
		return nil, err
	}
	for name := range all {
		if !slices.Contains(Defining(), name) {
			delete(all, name)
		}
	}
	d, err := Definition(all)
	if err != nil {
		return nil, err
	}
	all["definition"] = d.String()
	return all, nil
}

// plain returns a value of the SDK's as JSON's values.
func plain(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.NewDecoder(bytes.NewReader(text)).Decode(&out)
}

func object[T any](v T) (map[string]any, error) {
	all, err := plain(v)
	m, ok := all.(map[string]any)
	if err == nil && !ok {
		err = fmt.Errorf("%v is no object", all)
	}
	return m, err
}
