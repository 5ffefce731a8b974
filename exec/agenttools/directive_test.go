package agenttools_test

import (
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/exec/agenttools"
)

func TestPrompt(t *testing.T) {
	for xml, want := range map[string]string{
		"<directive name=\"a\"><metadata><description>x</description></metadata>\n<process>\n<step>go</step>\n</process>\n</directive>": "<process>\n<step>go</step>\n</process>",
		"<directive name=\"a\"><metadata/><inputs><input name=\"x\">y</input></inputs><hooks><hook/></hooks></directive>":               "",
		"<directive name=\"a\"><metadata\n a=\"b\"/> <!-- a\ncomment --> Do it.</directive>":                                            "Do it.",
		"": "",
	} {
		m := &model.Model{Fields: &value.Value{Kind: value.Map,
			Map: []value.Entry{{Key: "content", Value: &value.Value{Kind: value.Text, Text: xml}}}}}
		if got := agenttools.Prompt(m); got != want {
			t.Errorf("%s: %q; want %q", xml, got, want)
		}
		if m.Body = " The text. "; agenttools.Prompt(m) != "The text." {
			t.Errorf("%s: %q", xml, agenttools.Prompt(m))
		}
	}
}

func TestFill(t *testing.T) {
	inputs := map[string]any{"a": "x", "n": 3.0, "list": []any{1.0, "y"}, "none": nil}
	for text, want := range map[string]string{
		"{input:a} {input:n} {input:list}": `x 3 [1,"y"]`, "{input:b} {input:b?} {input:b:z}": "{input:b}  z",
		"{input:none?}{input:none:d}": "d", "{input:a:z}": "x", "{output:a}": "{output:a}",
	} {
		if got := agenttools.Fill(text, inputs); got != want {
			t.Errorf("%s: %q; want %q", text, got, want)
		}
	}
}
