package main

import (
	"cmp"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/initcmd"
)

// This file tests what all commands have in common.

// TestHelpWidth: no line of a command's help is wider than 80 columns.
func TestHelpWidth(t *testing.T) {
	for _, c := range commands() {
		h, stdout, _ := testHost()
		if status := cli.Run(h, commands(), append(strings.Fields(c.Path), "--help")); status != fault.ExitDone {
			t.Errorf("%s: %d", c.Path, status)
		}
		for line := range strings.Lines(stdout.String()) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("rye help %s: %s", c.Path, line)
			}
		}
	}
}

// TestOutputNames: a thread's id is called thread and a request's id request in every output, and nothing else is.
func TestOutputNames(t *testing.T) {
	seen := map[string]int{}
	var walk func(schema string, doc any)
	walk = func(schema string, doc any) {
		object, _ := doc.(map[string]any)
		properties, _ := object["properties"].(map[string]any)
		for name, of := range properties {
			switch {
			case regexp.MustCompile(`(thread|request)_ids?$`).MatchString(name):
				t.Errorf("%s has %q", schema, name)
			case name == "thread" || name == "request":
				if seen[name]++; of.(map[string]any)["type"] != "string" {
					t.Errorf("%s: %q is no string: %v", schema, name, of)
				}
			}
			walk(schema, of)
		}
		if of := cmp.Or(object["items"], object["additionalProperties"]); of != nil {
			walk(schema, of)
		}
	}
	for _, n := range initcmd.SchemasOf(commands()) {
		walk(n.Name, initcmd.SchemaDocument(n.Name, n.Of))
	}
	if seen["thread"] == 0 || seen["request"] == 0 {
		t.Errorf("the outputs have %v", seen)
	}
}
