package plugin

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRequirements: each requirement in the table of the specification names a test that exists.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile("testdata/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^\d+(\.\d+)* +(MUST|SHOULD) +\S.*\S {2,}(case|test|script) ([\w./]+)$`)
	used, lines := map[string]bool{}, 0
	for text := range strings.Lines(string(text)) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		lines++
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("malformed: %s", text)
			continue
		}
		exists := true
		switch kind, name := m[3], m[4]; kind {
		case "case":
			used[name] = true
			_, err := os.Stat(filepath.Join("testdata/cases", name+".txtar"))
			exists = err == nil
		case "script":
			_, err := os.Stat(filepath.Join("../../testdata/script", name+".txtar"))
			exists = err == nil
		case "test":
			exists = hasTest(t, name)
		}
		if !exists {
			t.Errorf("no such test: %s", text)
		}
	}
	if lines < 80 || len(used) < 30 {
		t.Errorf("%d requirements with %d cases", lines, len(used))
	}
}

// hasTest reports whether a test exists: of this package, or as PACKAGE.TEST of another one.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	dir, test := ".", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		dir, test = "../../"+name[:i], name[i+1:]
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
