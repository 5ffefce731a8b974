package main

import (
	"fmt"
	"testing"

	"github.com/rye-build/rye/cmd/rye/cli"
)

// conforms checks the part of JSON Schema that schemaType uses.
func conforms(schema map[string]any, v any) string {
	switch x := v.(type) {
	case nil:
		if _, ok := schema["type"]; ok {
			return "null"
		}
	case map[string]any:
		if required, ok := schema["required"].([]string); ok {
			for _, name := range required {
				if _, ok := x[name]; !ok {
					return "no " + name
				}
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			if value, ok := x[name]; ok {
				if bad := conforms(p.(map[string]any), value); bad != "" {
					return name + ": " + bad
				}
			}
		}
	case []any:
		for i, e := range x {
			if bad := conforms(schema["items"].(map[string]any), e); bad != "" {
				return fmt.Sprintf("[%d]: %s", i, bad)
			}
		}
	case string:
		if t, ok := schema["type"]; ok && t != "string" {
			return fmt.Sprintf("a string, want %v", t)
		}
	}
	return ""
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := cli.Parse(commands(), []string{"version", "--json"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEscape(b *testing.B) {
	for b.Loop() {
		cli.Escape("blake3:0123456789ab  dir/some/path/to/a/file.txt", false)
	}
}

// hostile is text that would repaint a terminal, hide or turn round what follows (MAN-24).
const hostile = "a\x1b[2J\x1b]8;;http://x\x07b\r\n\tc\x00\x7f\u0085\u009b31m\u202egnp\u2066\u200b\u2028\U000e0041\xffä日é"

const hostileShown = `a\x1b[2J\x1b]8;;http://x\x07b\r\n\tc\x00\x7f\u0085\u009b31m\u202egnp\u2066\u200b\u2028\U000e0041\xffä日é`
