package project

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/rye-build/rye/manifest/policy/yamltree/schematest"
)

func schemaOf(t testing.TB) map[string]any {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal([]byte(Schema()), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func keysOf(m any) []string {
	var keys []string
	for k := range m.(map[string]any) {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// What the schema names the reader knows, and the other way round.
func TestSchemaKeys(t *testing.T) {
	s := schemaOf(t)
	properties := s["properties"].(map[string]any)
	require := properties["requires"].(map[string]any)["additionalProperties"].(map[string]any)
	for _, c := range []struct {
		schema map[string]any
		reader []string
	}{{s, order}, {require, requireKeys}} {
		want := slices.Sorted(slices.Values(c.reader))
		if got := keysOf(c.schema["properties"]); !slices.Equal(got, want) ||
			c.schema["additionalProperties"] != false {
			t.Errorf("the schema knows %q, the reader %q", got, want)
		}
	}
	for _, c := range []struct {
		got  any
		want int
	}{
		{properties["requires"].(map[string]any)["maxProperties"], maxRequires},
		{properties["roots"].(map[string]any)["maxItems"], maxRoots},
		{s["$defs"].(map[string]any)["source"].(map[string]any)["maxLength"], maxSource},
	} {
		if c.got != float64(c.want) {
			t.Errorf("the schema allows %v, the reader %d", c.got, c.want)
		}
	}
}

// The vectors are good to the schema too, and bad but for what it can't say.
func TestSchemaVectors(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	s := schematest.New(t, Schema())
	for _, file := range goodFiles(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.Follows(b, func(b []byte) ([]byte, error) {
			p, err := Parse(b, "1.0.0")
			if err != nil {
				return nil, err
			}
			return p.Format(), nil
		})
	}
	for _, c := range badCases(t) {
		if why, ok := s.Refuses([]byte(c.Text)); ok && (why == "") != c.Valid {
			t.Errorf("%q: the schema says %q", c.Text, why)
		}
	}
}
