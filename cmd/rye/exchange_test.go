package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cmd/rye/cli"
)

// exchangeWords are the words of import and export, in a project that pins a directive.
func exchangeWords(t *testing.T, home string) map[string][]string {
	t.Helper()
	project, from := filepath.Join(t.TempDir(), "p"), filepath.Join(t.TempDir(), "greet")
	file := filepath.Join(from, "SKILL.md")
	if err := os.Mkdir(from, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("---\nname: greet\ndescription: Greets\n---\n\nGreet.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", project}, {"-C", project, "new", "directive", "acme/say"},
		{"-C", project, "lock"}, {"-C", project, "bundle", "create", "acme", "--package", project}} {
		h, _, stderr := testHost("HOME="+home, "LOCALAPPDATA="+home)
		if status := cli.Run(h, commands(), args); status != 0 {
			t.Fatal(args, status, stderr)
		}
	}
	return map[string][]string{
		"import skill":     {"-C", project, from},
		"import agents":    {"-C", project, file, "--as", "acme/agents"},
		"export skill":     {"-C", project, "directive:acme/say", t.TempDir()},
		"export directive": {"-C", project, "directive:acme/say", "--to", "claude"},
		"export plugin":    {"-C", project, "acme", filepath.Join(t.TempDir(), "plugin")},
	}
}
