package skill

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
)

// TestDirectives: what is made of a directive is a skill, and its name is one.
func TestDirectives(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"acme/a_b": "a-b", "acme/A.b__C": "a-b-c",
		"x/" + strings.Repeat("a", 70): strings.Repeat("a", 64), "x/9": "9"} {
		d := &Directive{Ref: model.Ref{Kind: "directive", ID: id}, Version: "1.0.0",
			Description: strings.Repeat("é \"x\" ", 300), Body: "{input:a}\n",
			Inputs: []Input{{Name: "a", Required: true}}}
		if got := Slug(d.Ref); got != want || !IsName(got) {
			t.Errorf("%s: %q", id, got)
		}
		if s, err := ParseText(Main, d.Skill()[0].Bytes); err != nil || s.Name != want || s.Version != "1.0.0" {
			t.Error(s, err)
		}
	}
}

// TestQuote: what YAML or TOML doesn't take in double quotes is escaped.
func TestQuote(t *testing.T) {
	t.Parallel()
	if got := Quote("b\x7f\u0085\u009b31m\u2028\ufeff\"\\<é"); got != `"b\u007f\u0085\u009b31m\u2028\ufeff\"\\<é"` {
		t.Error(got)
	}
}

// TestAgents: the file stands behind metadata as it was, and what isn't one is refused.
func TestAgents(t *testing.T) {
	t.Parallel()
	ref := model.Ref{Kind: "knowledge", ID: "acme/agents"}
	text := "---\nx: y\n---\n# Instructions\r\n"
	got := string(AgentsText(ref, `For "agents"`, []byte(text)))
	if !strings.HasSuffix(got, "---\n"+text) {
		t.Error(got)
	}
	for _, k := range model.Builtin() {
		if k.Name == "knowledge" {
			if m := k.Read(ref, "knowledge/acme/agents.md", []byte(got)); m.Invalid() || m.Title != `For "agents"` {
				t.Error(m.Problems)
			}
		}
	}
	for _, bad := range []string{"", " \n", "\xff", "a\x00b", "x\u202ey", strings.Repeat("x", MaxText+1)} {
		if CheckAgents("AGENTS.md", []byte(bad)) == nil {
			t.Errorf("%.10q is taken", bad)
		}
	}
	if err := CheckAgents("AGENTS.md", []byte(text)); err != nil {
		t.Error(err)
	}
}
