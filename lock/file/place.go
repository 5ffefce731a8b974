package file

import (
	"bytes"
	"strconv"
	"strings"
)

// LineOf returns the line of an entry in a lock's file, by section and name, such as "pins" and "tool:acme/fetch", or
// 0.
func LineOf(file []byte, section, name string) int {
	begin, entry := []byte(section+":\n"), []byte("  "+strconv.Quote(name)+": {")
	n, inside := 0, false
	for line := range bytes.Lines(file) {
		switch n++; {
		case line[0] != ' ':
			inside = bytes.Equal(line, begin)
		case inside && bytes.HasPrefix(line, entry):
			return n
		}
	}
	return 0
}

// Line returns the changed line in the lock's file before the change, or 0 if the file has none.
func (c Change) Line(file []byte) int {
	word, _, _ := strings.Cut(string(c.Kind), "_")
	sections := []string{"pins"}
	switch word {
	case "requirement", "source", "revision":
		sections = []string{"requires", "bundles"}
	case "bundle":
		sections = []string{"bundles"}
	case "toolchain":
		sections = []string{"toolchain"}
	case "artifact":
		sections = []string{"artifacts"}
	case "definition":
		sections = []string{"definitions"}
	}
	for _, s := range sections {
		if n := LineOf(file, s, c.Name); n > 0 {
			return n
		}
	}
	return 0
}
