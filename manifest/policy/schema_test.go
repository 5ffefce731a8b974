package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/policy/yamltree/schematest"
)

// What the reader accepts the schema accepts; these vectors have every section and field.
func TestSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	s := schematest.New(t, Schema())
	if want := slices.Sorted(slices.Values(order)); !slices.Equal(s.Keys(), want) {
		t.Errorf("the schema knows %q, the reader %q", s.Keys(), want)
	}
	files := []string{
		"keys: {a: {key: $key1}, b: {key: $key2}}\nnames: {a/b: {keys: [a, b], threshold: 1, accept: [v2]}}\n" +
			"lists: {x: {from: y, key: a, max-age: 36h}}\nexec: {floor: none, strangers: limits, network: none}\n"}
	for _, name := range []string{"good/example.yaml", "good/sections.yaml", "good/empty.yaml"} {
		files = append(files, string(mustRead(t, name)))
	}
	for _, b := range files {
		s.Follows([]byte(fill(b)), func(b []byte) ([]byte, error) {
			p, err := Parse(b)
			if err != nil {
				return nil, err
			}
			return p.Format(), nil
		})
	}
}

// Of what the reader refuses, the schema finds all but what it can't say: that names are of keys that are there, that
// dates are days, that globs are no rivals, that nothing is in the file but YAML of ours.
func TestSchemaRefuses(t *testing.T) {
	s := schematest.New(t, Schema())
	var cases []badCase
	if err := json.Unmarshal(mustRead(t, "bad.json"), &cases); err != nil {
		t.Fatal(err)
	}
	found, missed := 0, []string{}
	for _, c := range cases {
		switch why, ok := s.Refuses([]byte(fill(c.Text))); {
		case why != "":
			found++
		case ok:
			missed = append(missed, c.Name)
		}
	}
	if found < 40 || len(missed) > found/2 {
		t.Errorf("the schema finds %d, and misses %d: %s", found, len(missed), strings.Join(missed, ", "))
	}
}
