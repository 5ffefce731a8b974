package demos

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// agentScript returns the demonstration of --agent: sign, lock, run a directive with a child, tamper with a tool
// meanwhile, see it refused, and verify the transcript.
func (d *demo) agentScript(m *scripted) []demoLine {
	const tool = ".ai/tools/acme/words.star"
	m.before = func() error { return d.write(tool, strings.Replace(wordsTool, "len(", "1 + len(", 1)) }
	public, export := d.path("you.pem"), d.path("report.tar.zst")
	return []demoLine{
		{title: "create a project, a key and a policy", args: []string{"init"}, say: "policy", show: "commit"},
		{title: "write a tool, two directives, and a provider, whose model is a script on this machine",
			does: func() error { return d.agents(tool, m.address) }},
		{title: "sign them", args: []string{"sign", "--all", "--yes"}, say: "directive:acme/report", show: "acme/"},
		{title: "pin them and everything they run on", args: []string{"lock"}, say: "locked", show: "locked"},
		{title: "run a directive, which starts another one; meanwhile the tool is changed",
			args: []string{"run", "acme/report", "-i", "text=one two three"},
			say:  "refused: LOCK_MISMATCH"},
		{title: "both threads ended, and their transcripts are signed", args: []string{"thread", "list"},
			say: "acme/count", show: "completed"},
		{title: "see what was refused", does: d.thread("report"), args: []string{"thread", "show", "THREAD"},
			say: "LOCK_MISMATCH", show: "LOCK_MISMATCH"},
		{title: "see what it cost", args: []string{"thread", "cost", "--by", "directive"}, say: "acme/report"},
		{title: "restore the tool", args: []string{"--offline", "restore", "tool:acme/words"}, say: "restored",
			show: "restored"},
		{title: "run the thread again from its record, without a model", args: []string{"thread", "replay", "THREAD"},
			say: "as recorded"},
		{title: "and the thread that it started", does: d.thread("count"),
			args: []string{"thread", "replay", "THREAD"}, say: "as recorded"},
		{title: "export the thread", does: d.thread("report"),
			args: []string{"thread", "export", "THREAD", "-o", export}, say: "report.tar.zst"},
		{title: "export your public key", args: []string{"key", "export"}, say: "PUBLIC KEY"},
		{title: "verify the transcript on another machine, with that key alone", does: func() error {
			return d.leave(public)
		},
			args: []string{"thread", "verify", export, "--key", public}, say: "directive:acme/report"},
	}
}

// agents writes the items of the project: two directives, a tool and the provider of the scripted model.
func (d *demo) agents(tool, address string) error {
	for file, text := range map[string]string{
		tool: wordsTool, ".ai/directives/acme/count.md": countDirective,
		".ai/directives/acme/report.md":        reportDirective,
		".ai/tools/acme/providers/script.yaml": strings.ReplaceAll(scriptProvider, "ADDRESS", address),
	} {
		if err := d.write(file, text); err != nil {
			return err
		}
	}
	return nil
}

// thread returns a step that finds the only thread of a directive. The word THREAD in later lines then means it.
func (d *demo) thread(directive string) func() error {
	return func() error {
		found, err := filepath.Glob(d.path("project", ".ai", "threads", "acme", directive+"-*"))
		if err == nil && len(found) != 1 {
			err = fault.New(fault.Unknown, "%d threads were run", len(found))
		}
		if err != nil {
			return err
		}
		d.named = "acme/" + filepath.Base(found[0])
		_, err = os.Stat(found[0])
		return err
	}
}

const wordsTool = `# ---
# version: "1.0.0"
# category: acme
# description: Counts the words of a text
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# risk: read
# input_schema: {type: object, required: [text], properties: {text: {type: string, description: The text}}}
# ---
def main(params):
    return {"words": len(params["text"].split())}
`

const countDirective = `# count

` + "```xml" + `
<directive name="count" version="1.0.0">
  <metadata>
    <description>Count the words of a text</description>
    <category>acme</category>
    <model provider="acme/providers/script" id="script"/>
    <permissions><execute><tool>acme/words</tool></execute></permissions>
  </metadata>
  <inputs><input name="text" type="string" required="true">The text</input></inputs>
  <outputs><output name="words" type="integer">How many words it has</output></outputs>
</directive>
` + "```" + `

Count the words of this text with acme/words: {input:text}
`

const reportDirective = `# report

` + "```xml" + `
<directive name="report" version="1.0.0">
  <metadata>
    <description>Have the words of a text counted twice</description>
    <category>acme</category>
    <model provider="acme/providers/script" id="script"/>
    <limits turns="5" spend="1.00"/>
    <permissions>
      <execute>
        <tool>acme/words</tool>
        <tool>rye/agent/threads/thread_directive</tool>
        <directive>acme/count</directive>
      </execute>
    </permissions>
  </metadata>
  <inputs><input name="text" type="string" required="true">The text</input></inputs>
  <outputs><output name="report" type="string">What came of it</output></outputs>
</directive>
` + "```" + `

1. Start acme/count with this text: {input:text}
2. Count the words once more yourself, with acme/words.
3. Return what both counts gave.
`

const scriptProvider = `version: "1.0.0"
tool_type: http
executor_id: rye/core/primitives/http_client
category: acme/providers
description: Asks a model that is a script
risk: money
network: ["ADDRESS"]
tier_mapping: {fast: script}
pricing: {"*": {input: "3", output: "15"}}
context_window: 100000
tool_use: {mode: native, response_format: chat_completion}
config:
  method: POST
  url: http://ADDRESS/v1/chat/completions
  body: {model: "{model}", max_tokens: "{max_tokens}", messages: "{messages}", tools: "{tools}"}
input_schema:
  type: object
  required: [model, max_tokens, messages]
  additionalProperties: false
  properties: {model: {type: string}, max_tokens: {type: integer}, messages: {type: array}, tools: {type: array}}
`
