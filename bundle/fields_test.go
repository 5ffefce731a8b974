package bundle

import (
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
)

// Every field that executes something is found, wherever it stands (GWY-20), and prose isn't.
func TestFields(t *testing.T) {
	v, problems := parse.YAML([]byte(`
description: command of nothing
config:
  command: node
  args: [a.js, "{path}"]
  env: {TOKEN: "${TOKEN}", EMPTY: ""}
  timeout: 30
  nodes:
    one: {action: tool, item_id: acme/x, note: hello}
  url: https://a.example
  headers: {X-Key: 1}
env_config:
  interpreter: {type: system_binary, binary: bash, fallback: /bin/bash}
  env: {PATH: /x}
hooks:
  - {event: error, when: {path: a}, action: run, params: {text: [hi]}}
resilience:
  retry: {max_attempts: 3, checks: [{shell: "rm -rf /"}]}
answer: shape
infra_hooks: [{id: x}]
input_schema: {properties: {command: {type: string}}}
long: {command: x}
`), value.Pos{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []string{"config.command: node", "config.args[0]: a.js", "config.args[1]: {path}",
		"config.env.TOKEN: ${TOKEN}", "config.nodes.one.action: tool",
		"config.nodes.one.item_id: acme/x", "config.url: https://a.example", "config.headers.X-Key: 1",
		"env_config.interpreter.binary: bash",
		"env_config.interpreter.fallback: /bin/bash", "env_config.env.PATH: /x", "hooks[0].event: error",
		"hooks[0].when.path: a", "hooks[0].action: run",
		"hooks[0].params.text[0]: hi", "resilience.retry.max_attempts: 3",
		"resilience.retry.checks[0].shell: rm -rf /", "answer: shape", "infra_hooks[0].id: x"}
	if got := mentionedFields(v); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if got := cut(strings.Repeat("ä", 300)); got != strings.Repeat("ä", longest)+"…" {
		t.Error(got)
	}
}
