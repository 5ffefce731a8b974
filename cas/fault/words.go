package fault

import (
	"fmt"
	"slices"
	"strings"
)

// MaxLines is how many failures an error lists; all of them are in its details.
const MaxLines = 10

// List adds lines that explain the text: up to MaxLines, then the number of the others.
func (e *Error) List(lines ...string) *Error {
	for i, line := range lines {
		if i == MaxLines {
			return e.Because(fmt.Sprintf("and %d more", len(lines)-i))
		}
		e.Because(line)
	}
	return e
}

// Count returns a number with its noun, in the plural unless it is 1: "2 entries".
func Count(n int64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ey"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Clip cuts a foreign text that a message repeats down to most bytes.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// In returns the message about a mistake in a document of a family. It omits a line or column that is 0.
func In(family string, line, column int, what string) string {
	switch {
	case line == 0:
		return fmt.Sprintf("%s: %s", family, what)
	case column == 0:
		return fmt.Sprintf("%s: line %d: %s", family, line, what)
	}
	return fmt.Sprintf("%s: line %d, column %d: %s", family, line, column, what)
}

// Quote writes an argument so that a POSIX shell reads it back.
func Quote(arg string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("-_./:=,@%+", r)
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !plain(r) }) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// Command returns a command to paste: the first word as it is, the arguments quoted.
func Command(command string, args ...string) string {
	for _, arg := range args {
		command += " " + Quote(arg)
	}
	return command
}

// Gravest returns the worst of some codes. An error about several failures has that code.
func Gravest(codes []Code) (worst Code) {
	order := []Code{Integrity, SignatureInvalid, Revoked, Rollback, Policy}
	rank := func(c Code) int {
		if i := slices.Index(order, c); i >= 0 {
			return i
		}
		return len(order)
	}
	for _, c := range codes {
		if worst == "" || rank(c) < rank(worst) {
			worst = c
		}
	}
	return worst
}

// Known reports whether a text is one of the codes.
func Known(c Code) bool {
	return slices.ContainsFunc(Table(), func(line Line) bool { return line.Code == c })
}
