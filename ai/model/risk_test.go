package model

import (
	"strings"
	"testing"
)

// TestRiskNote holds the advice about a missing risk to the format of the file.
func TestRiskNote(t *testing.T) {
	k := builtinKind(t, "tool")
	const read = "none is declared: calls count as read, because it gets no network, secrets or other items, " +
		"and writes no project file; add a line such as: "
	for _, c := range []struct{ path, text, want string }{
		{"tools/a.py", "__version__ = '1.0.0'\n__executor_id__ = 'x'\n", read + `__risk__ = "read"`},
		{"tools/a.yaml", "version: 1.0.0\nexecutor_id: x\nfiles: {write: [docs]}\n", "none is declared: calls count " +
			"as write, because it may write files of the project; add a line such as: risk: write"},
		{"tools/a.sh", "#!/bin/sh\n# ---\n# version: 1.0.0\n# executor_id: x\n# network: all\n# ---\n", "none is " +
			"declared: calls count as destructive, because it may use the network; add a line such as: # risk: destructive"},
		{"tools/a.js", "// ---\n// version: 1.0.0\n// executor_id: x\n// ---\n", read + "// risk: read"},
		{"tools/a.js", "/**\n * ---\n * version: 1.0.0\n * executor_id: x\n * ---\n */\n", read + " * risk: read"},
		{"tools/a.js", "/*\n---\nversion: 1.0.0\nexecutor_id: x\n---\n*/\n", read + "risk: read"},
		{"tools/a.lua", "-- ---\n-- version: 1.0.0\n-- executor_id: x\n-- ---\n", read + "-- risk: read"},
		{"tools/a.yaml", "version: 1.0.0\nexecutor_id: x\nrisk: read\n", ""},
		{"tools/a.yaml", "version: 1.0.0\nexecutor_id: x\neffects: [network]\n", ""},
		{"tools/a.yaml", "version: 1.0.0\nexecutor_id: x\npure: true\n", ""},
		{"tools/a.yaml", "version: 1.0.0\ntool_type: runtime\nexecutor_id: x\n", ""},
		{"tools/a.yaml", "version: 1.0.0\nexecutor_id: null\n", ""},
	} {
		m := k.Read(Ref{"tool", "a"}, c.path, []byte(c.text))
		if !m.Marked {
			t.Fatalf("%s: not an item", c.text)
		}
		if got := m.RiskNote(); got != c.want || m.Grants().RiskNote != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
		if c.want == "" {
			continue
		}
		// With the line behind its executor the file declares the risk.
		at := strings.Index(c.text, "executor_id")
		at += strings.Index(c.text[at:], "\n") + 1
		line := c.want[strings.Index(c.want, "such as: ")+len("such as: "):]
		with := k.Read(Ref{"tool", "a"}, c.path, []byte(c.text[:at]+line+"\n"+c.text[at:]))
		risk := strings.Trim(line[strings.LastIndex(line, " ")+1:], `"`)
		if with.RiskNote() != "" || with.Tool.Risk.String() != risk {
			t.Errorf("%s: with the line the risk is %v, %q", c.text, with.Tool.Risk, with.RiskNote())
		}
	}
	d := builtinKind(t, "directive").Read(Ref{"directive", "d"}, "directives/d.md", []byte("x"))
	if got := d.RiskNote(); got != "" {
		t.Errorf("a directive: got %q", got)
	}
}
