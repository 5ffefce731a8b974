package shape_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/jcs"
)

// golden compares v, as JSON, with a file of testdata.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	goldentest.JSON(t, filepath.Join("testdata", name), v)
}

// A vector is an interface or grants, the bytes that are hashed, and the hash.
type vector struct {
	Of     any    `json:"of"`
	Text   string `json:"text"`
	Digest string `json:"digest"`
	hash   func() (cas.Digest, error)
}

func TestHashVectors(t *testing.T) {
	face := func(input, output, failure string) vector {
		i := shape.Interface{Input: schema(t, input), Output: schema(t, output), Error: schema(t, failure)}
		of := map[string]any{"input": i.Input, "output": i.Output, "error": i.Error}
		return vector{Of: of, hash: i.Hash}
	}
	grants := func(g shape.Grants) vector { return vector{Of: g, hash: g.Hash} }
	var all []vector
	for _, row := range []struct {
		v    vector
		text string
	}{
		{face("", "", ""), `{}`},
		{face(`{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`, `{"type":"string"}`,
			`{"type":"object"}`),
			`{"error":{"type":"object"},"input":{"properties":{"url":{"type":"string"}},"required":["url"],"type":"object"},"output":{"type":"string"}}`},
		{face(`{"b":1.50,"a":{}}`, "", ""), `{"input":{"a":{},"b":1.5}}`},
		{grants(shape.Grants{}), `{}`},
		{grants(shape.Grants{Permissions: []string{}, Limits: map[string]any{}, Secrets: []string{},
			Network: []any{}}), `{}`},
		{grants(shape.Grants{Network: "none"}), `{}`},
		{grants(shape.Grants{Risk: "write"}), `{"risk":"write"}`},
		{grants(shape.Grants{Permissions: []string{"rye.load.*", "execute:tool:acme/fetch",
			"rye.execute.tool.acme.fetch"}, Limits: map[string]any{"turns": int64(4), "spend": int64(5e8)},
			Risk: "infra", Secrets: []string{"b", "a", "b"}, Network: []any{"b.example", "a.example"}}),
			`{"limits":{"spend":500000000,"turns":4},"network":["a.example","b.example"],"permissions":["execute:tool:acme/fetch","load:*:*"],"risk":"infra","secrets":["a","b"]}`},
		{grants(shape.Grants{Network: "all"}), `{"network":"all"}`},
		{grants(shape.Grants{Files: map[string]any{}}), `{}`},
		{grants(shape.Grants{Files: map[string]any{"read": []any{}, "write": nil}}), `{}`},
		{grants(shape.Grants{Files: map[string]any{"read": []any{"."}}}), `{"files":{"read":["."]}}`},
		{grants(shape.Grants{Files: map[string]any{"read": []string{"docs/api", "src", "docs", "docs-old"},
			"write": []any{"docs", ".", ".ai/outputs"}}, Risk: "write"}),
			`{"files":{"read":["docs","docs-old","src"],"write":["."]},"risk":"write"}`},
	} {
		d, err := row.v.hash()
		if err != nil || d != cas.Sum([]byte(row.text)) {
			t.Errorf("%s: %s, %v", row.text, d, err)
		}
		if canonical, err := jcs.Canonical(nil, []byte(row.text)); err != nil || string(canonical) != row.text {
			t.Errorf("%s: %s, %v", row.text, canonical, err)
		}
		all = append(all, vector{Of: row.v.Of, Text: row.text, Digest: d.String()})
	}
	golden(t, "hashes.json", all)
}

func TestHashErrors(t *testing.T) {
	if _, err := (shape.Interface{Output: []int{1}}).Hash(); err == nil {
		t.Error("no JSON has a hash")
	}
	for _, row := range []struct {
		g    shape.Grants
		want string
	}{
		{shape.Grants{Limits: []any{1}}, "limits: expected an object"},
		{shape.Grants{Network: "some"}, `network: expected "none", "all" or a list of hosts`},
		{shape.Grants{Network: true}, `network: expected "none", "all" or a list of hosts`},
		{shape.Grants{Network: []any{1}}, "network: a host that is no text"},
		{shape.Grants{Files: []any{"."}}, "files: expected an object"},
		{shape.Grants{Files: map[string]any{"read": "."}}, "files: expected lists of paths"},
		{shape.Grants{Files: map[string]any{"write": []any{1}}}, "files: expected lists of paths"},
		{shape.Grants{Files: map[string]any{"run": []any{"a"}}}, "files: expected read and write alone"},
		{shape.Grants{Files: map[string]any{"read": []any{"../a"}}}, `files: path "../a": ".." is not a name`},
		{shape.Grants{Files: map[string]any{"write": []string{"a", ".ai/tools"}}},
			`files: ".ai/tools" is not to be written`},
		{shape.Grants{Limits: map[string]any{"a": "\xff"}}, `json: text that is not UTF-8: "\xff"`},
	} {
		_, err := row.g.Hash()
		if err == nil || err.Error() != row.want {
			t.Errorf("%v: %v", row.g, err)
		}
		if fault.CodeOf(err) != fault.Validation && !strings.HasPrefix(row.want, "json") {
			t.Errorf("%T", err)
		}
	}
	_, err := shape.Grants{Permissions: []string{"all"}}.Hash()
	if fault.CodeOf(err) != fault.Validation {
		t.Error(err)
	}
}

// The report as other programs see it.
func TestReportFormat(t *testing.T) {
	before := &shape.Shape{
		Interface: shape.Interface{
			Input: schema(t, object(`"url":{"type":"string"},"tries":{"type":"integer","default":1,"maximum":5}`,
				`"required":["url"]`)),
			Output: schema(t, object(`"body":{"type":"string"},"status":{"enum":["ok","late"]}`)),
			Error:  schema(t, object(`"message":{"type":"string"},"code":{"type":"integer"}`)),
		},
		Grants: shape.Grants{Risk: "read", Network: []any{"api.acme.example"},
			Limits: map[string]any{"turns": 4}},
		Description: "fetches",
	}
	after := &shape.Shape{
		Interface: shape.Interface{
			Input: schema(t,
				object(
					`"url":{"type":"string"},"tries":{"type":"integer","default":2,"maximum":3},"token":{"type":"string"},"agent":{"type":"string"}`,
					`"required":["url","token"]`)),
			Output: schema(t, object(`"body":{"type":"string"},"status":{"enum":["ok"]},"size":{"type":"integer"}`)),
			Error:  schema(t, object(`"message":{"type":"string"}`)),
		},
		Grants: shape.Grants{Risk: "money", Network: []any{"api.acme.example"},
			Limits: map[string]any{"turns": 3}, Secrets: []string{"acme-token"}, Permissions: []string{"rye.load.*"}},
		Description: "fetches and pays",
	}
	r := shape.Diff(before, after)
	if want := "5 breaking, 1 warning, 5 compatible, 2 info"; r.Summary != want || !r.Breaking {
		t.Errorf("%s, want %s", r.Summary, want)
	}
	golden(t, "report.json", []shape.Report{r, shape.Diff(after, before), shape.Diff(nil, after),
		shape.Diff(before, nil), shape.Diff(before, before)})
}

func BenchmarkDiff(b *testing.B) {
	before := &shape.Shape{Interface: shape.Interface{Input: schema(b,
		object(`"url":{"type":"string"},"tries":{"type":"integer","maximum":5}`, `"required":["url"]`))}}
	after := &shape.Shape{Interface: shape.Interface{Input: schema(b,
		object(`"url":{"type":"string"},"tries":{"type":"integer","maximum":6}`, `"required":["url"]`))}}
	b.ReportAllocs()
	for b.Loop() {
		if shape.Diff(before, after).Breaking {
			b.Fatal()
		}
	}
}
