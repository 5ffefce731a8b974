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

// Defining lists the members of a tool that make up its definition.
func Defining() []string {
	return []string{"annotations", "description", "inputSchema", "name", "outputSchema", "title"}
}

// Definition returns the digest of a tool's definition. The tool is an entry of the announcement's tools, in JSON
// values; other members than Defining are ignored.
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

// announced returns a tool as the announcement shows it, with the digest of its definition.
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

// plain converts a value of the SDK to JSON values.
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
