package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
	"github.com/rye-build/rye/exec/thread/replay"
)

// A conversation is what a model says in a run of a directive of the library.
type conversation struct {
	directive, name string
	inputs          []string
	files           map[string]string // of the project
	allow           []string          // tools whose calls a person approves
	turns           []modeltest.Turn
}

func call(id, name string, input map[string]any) wire.ToolCall {
	return wire.ToolCall{ID: id, Name: name, Input: input}
}

// execute is a call of rye_execute.
func execute(id, kind, item string, given map[string]any) wire.ToolCall {
	input := map[string]any{"item_type": kind, "item_id": item}
	if given != nil {
		input["parameters"] = given
	}
	return call(id, "rye_execute", input)
}

func says(text string, calls ...wire.ToolCall) modeltest.Turn {
	return modeltest.Turn{Text: text, Calls: calls, Usage: wire.Usage{Input: 1200, Output: 90}}
}

const madeTool = `# ---
# version: "0.1.0"
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# category: acme
# description: Counts the words of a text
# risk: read
# pure: true
# input_schema:
#   type: object
#   required: [text]
#   additionalProperties: false
#   properties:
#     text: {type: string, description: The text}
# output_schema:
#   type: object
#   required: [words]
#   properties:
#     words: {type: integer}
# examples:
#   - name: three words
#     params: {text: "one two  three"}
#     result: {words: 3}
#   - name: nothing
#     params: {text: ""}
#     result: {words: 0}
# ---
def main(params):
    return {"words": len(params["text"].split())}
`

const madeDirective = `# Triage

` + "```xml" + `
<directive name="triage" version="0.1.0">
  <metadata>
    <description>Sort the reports in a directory by urgency</description>
    <category>acme</category>
    <limits turns="15" tokens="100000" spend="0.50"/>
    <permissions>
      <execute>
        <tool>rye/file-system/ls</tool>
        <tool>rye/file-system/read</tool>
      </execute>
    </permissions>
  </metadata>
  <inputs>
    <input name="directory" type="string" required="true">Where the reports are</input>
  </inputs>
  <outputs>
    <output name="urgent" type="array">Paths of the reports that can't wait</output>
  </outputs>
</directive>
` + "```" + `

1. List {input:directory} with rye/file-system/ls.
2. Read each report with rye/file-system/read. If one can't be read, count it as urgent.
3. Return the paths of those in which a person can't work until it is mended.
`

const madeKnowledge = `---
id: deploying
title: How we deploy
version: "0.1.0"
entry_type: reference
category: acme
tags: [deploying]
references: []
---

# How we deploy

Run ` + "`make deploy`" + ` on the branch release. It needs the variable DEPLOY_HOST.
`

const brokenSum = "total=0\nfor n in \"$@\"; do\n  total=$((total - n))\ndone\necho $total\n"

const sumTest = "test \"$(bash sum.sh 1 2)\" = 3 && echo passed || { echo \"sum.sh 1 2 is $(bash sum.sh 1 2), not 3\"; exit 1; }\n"

// conversations has one for each directive of the library.
var conversations = []conversation{
	{"rye/agent/create_tool", "count", []string{"id=acme/count", "purpose=Count the words of a text"}, nil, nil,
		[]modeltest.Turn{
			says("I read the format first.", execute("a", "knowledge", "rye/tool-format", nil),
				call("b", "rye_search", map[string]any{"query": "text", "scope": "tool.rye.file-system.*",
					"limit": 3})),
			says("", call("c", "rye_load", map[string]any{"item_type": "tool", "item_id": "rye/file-system/ls"})),
			says("", call("d", "directive_return", map[string]any{"ref": "tool:acme/count", "extension": ".star",
				"content": madeTool})),
		}},
	{"rye/agent/create_directive", "triage", []string{"id=acme/triage",
		"task=Sort the bug reports in a directory by urgency"}, nil, nil, []modeltest.Turn{
		says("", execute("a", "knowledge", "rye/directive-format", nil),
			call("b", "rye_search", map[string]any{"query": "lists", "scope": "tool"})),
		says("", call("c", "rye_load", map[string]any{"item_type": "tool", "item_id": "rye/file-system/ls"})),
		says("", call("d", "directive_return", map[string]any{"ref": "directive:acme/triage", "extension": ".md",
			"content": madeDirective})),
	}},
	{"rye/agent/create_knowledge", "deploying", []string{"id=acme/deploying", "topic=How a developer deploys the site",
		"sources=Makefile"},
		map[string]string{"Makefile": "# on the branch release\ndeploy:\n\trsync -a site/ $(DEPLOY_HOST):/srv/site\n"},
		nil, []modeltest.Turn{
			says("", execute("a", "knowledge", "rye/knowledge-format", nil),
				execute("b", "tool", "rye/file-system/read", map[string]any{"file_path": "Makefile"})),
			says("", call("c", "directive_return", map[string]any{"ref": "knowledge:acme/deploying",
				"extension": ".md", "content": madeKnowledge})),
		}},
	{"rye/agent/threads/thread_summary", "deploy", []string{"directive_name=acme/deploy", "max_summary_tokens=200",
		"transcript_content=user: Deploy the site to a.example.\nassistant: calls acme/build\ntool: built 12 pages in out/\n"},
		nil, nil, []modeltest.Turn{
			says(
				"To do: deploy the site to a.example.\nDone: acme/build built 12 pages in out/.\nLeft: deploy out/ to a.example."),
		}},
	{"rye/agent/review", "sum", []string{"files=*.sh"}, map[string]string{"sum.sh": brokenSum, "test.sh": sumTest}, nil,
		[]modeltest.Turn{
			says("", execute("a", "tool", "rye/file-system/glob", map[string]any{"pattern": "*.sh"})),
			says("", execute("b", "tool", "rye/file-system/read", map[string]any{"file_path": "sum.sh"}),
				execute("c", "tool", "rye/file-system/read", map[string]any{"file_path": "test.sh"})),
			says("", call("d", "directive_return",
				map[string]any{"verdict": "change", "findings": []any{map[string]any{
					"file": "sum.sh", "line": 3, "severity": "high", "problem": "It subtracts: sum.sh 1 2 prints -3.",
					"change": "Write total + n."}}})),
		}},
	{"rye/agent/research", "sum", []string{"question=Which shell runs the tests?", "web=false"},
		map[string]string{"sum.sh": brokenSum, "test.sh": sumTest}, nil, []modeltest.Turn{
			says("Which program do the tests call?", call("a", "rye_search",
				map[string]any{"query": "acme shell", "scope": "knowledge.acme.*"}),
				execute("b", "tool", "rye/file-system/grep", map[string]any{"pattern": "bash"})),
			says("", call("c", "directive_return", map[string]any{"answer": "bash.", "open": []any{},
				"sources": []any{map[string]any{"title": "The test calls bash sum.sh", "where": "test.sh:1"}}})),
		}},
	{"rye/agent/fix_tests", "sum", []string{"command=bash test.sh"},
		map[string]string{"sum.sh": brokenSum, "test.sh": sumTest},
		[]string{"tool:rye/bash/bash", "tool:rye/file-system/write"}, []modeltest.Turn{
			says("", execute("a", "tool", "rye/bash/bash", map[string]any{"command": "bash test.sh"})),
			says("sum.sh gives -3.", execute("b", "tool", "rye/file-system/read",
				map[string]any{"file_path": "sum.sh"})),
			says("It subtracts.", execute("c", "tool", "rye/file-system/write",
				map[string]any{"file_path": "sum.sh",
					"content": strings.Replace(brokenSum, "total - n", "total + n", 1)})),
			says("", execute("d", "tool", "rye/bash/bash", map[string]any{"command": "bash test.sh"})),
			says("", call("e", "directive_return",
				map[string]any{"passed": true, "summary": "sum.sh subtracted. It adds now.",
					"changes": []any{map[string]any{"file": "sum.sh", "why": "it subtracted each number"}}})),
		}},
}

// recordings is the directory of the library's directives.
const recordings = "../../ai/std/.ai/directives"

// TestRecordings plays the conversations: the library's directives do what they did. With -update it records
// them anew.
func TestRecordings(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(filepath.Join(dir, "project", ".ai"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range conversations {
		at := filepath.Join(recordings, filepath.FromSlash(replay.RecordingDir(c.directive)),
			c.name+replay.RecordingExt)
		if goldentest.Update() {
			c.record(t, at)
		}
		f, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		events, err := replay.ReadRecording(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		ref := events[0].Payload["directive"].(map[string]any)["ref"]
		if last := events[len(events)-2]; ref != "directive:"+c.directive || last.Type != "thread_completed" {
			t.Errorf("%s: a thread of %v, which ended with %s", at, ref, last.Type)
		}
		if goldentest.Update() {
			continue // this program still has the old ones
		}
		h, stdout, stderr := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
		h.Now = time.Now
		h.Getwd = func() (string, error) { return filepath.Join(dir, "project"), nil }
		if got := cli.Run(h, commands(), []string{"test", "directive:" + c.directive}); got != fault.ExitDone ||
			!strings.Contains(stdout.String(), "1 passed, 0 failed") {
			t.Errorf("%s: %d, %s%s", c.directive, got, stdout, stderr)
		}
	}
}

// record runs the directive with a model that says what the conversation has.
func (c *conversation) record(t *testing.T, to string) {
	server := modeltest.New(t, c.turns...)
	at := t.TempDir()
	dir, home := filepath.Join(at, "project"), filepath.Join(at, "home")
	items := map[string]string{
		".ai/tools/rye/agent/providers/local.yaml": server.Item("local"),
		"../home/.ai/policy.yaml":                  "rye: policy/2\n\noverride:\n  - \"tool:rye/agent/providers/local\"\n",
	}
	for name, text := range c.files {
		items[name] = text
	}
	for name, text := range items {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rye := func(args ...string) string {
		t.Helper()
		h, stdout, stderr := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
		h.Now = time.Now
		h.Getwd = func() (string, error) { return dir, nil }
		if got := cli.Run(h, commands(), args); got != fault.ExitDone {
			t.Fatalf("%q: %d, %s%s", args, got, stdout, stderr)
		}
		return stdout.String()
	}
	rye("key", "new", "--owner", "Me")
	rye("trust", "add", "default", "--names", "tool:rye/agent/providers/local", "--yes")
	rye("sign", "tool:rye/agent/providers/local", "--yes")
	args := []string{"run", c.directive, "--model", "rye/agent/providers/local/general", "--json", "--no-wait"}
	for _, ref := range c.allow {
		args = append(args, "--allow", ref)
	}
	for _, in := range c.inputs {
		args = append(args, "-i", in)
	}
	out := rye(args...)
	if left := server.Left(); left > 0 {
		t.Fatalf("%s: %d turns are left\n%s", c.directive, left, out)
	}
	_, thread, _ := strings.Cut(out, `"thread":"`)
	thread, _, _ = strings.Cut(thread, `"`)
	to, err := filepath.Abs(to)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	rye("thread", "export", thread, "--recording", c.name, "-o", to)
	t.Log(fmt.Sprint(path.Base(to), " of ", c.directive))
}
