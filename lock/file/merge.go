package file

import (
	"bytes"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
)

// A MergeError is a lock with git's conflict markers, the first of them in this line.
type MergeError struct{ Line int }

func (e *MergeError) Error() string {
	return fmt.Sprintf("lock: line %d: unresolved merge conflict", e.Line)
}

// Fault implements the interface of package fault.
func (e *MergeError) Fault() *fault.Error {
	return fault.New(fault.LockMismatch, "%v", e).From(e).On("line", e.Line).Try("rye lock --resolve")
}

// The markers that git puts at the beginning of a line.
const (
	signOurs   = "<<<<<<<"
	signBase   = "|||||||"
	signMiddle = "======="
	signTheirs = ">>>>>>>"
)

// signOf returns the conflict marker at the beginning of a line, or "".
func signOf(line []byte) string {
	for _, s := range []string{signOurs, signBase, signMiddle, signTheirs} {
		if bytes.HasPrefix(line, []byte(s)) {
			return s
		}
	}
	return ""
}

// mark returns the number of the first line with a conflict marker, or 0.
func mark(b []byte) int {
	n := 0
	for line := range bytes.Lines(b) {
		if n++; signOf(line) != "" {
			return n
		}
	}
	return 0
}

// Sides splits a file with git's conflict markers into the two files to be merged. Parse then decides whether they
// are locks. ok is false if there are no markers, or if they are out of order.
func Sides(b []byte) (ours, theirs []byte, ok bool) {
	at := "" // the last marker, "" outside
	for line := range bytes.Lines(b) {
		text := signOf(line)
		switch {
		case text == "":
			if at == "" || at == signOurs {
				ours = append(ours, line...)
			}
			if at == "" || at == signMiddle {
				theirs = append(theirs, line...)
			}
		case text == signOurs && at == "", text == signBase && at == signOurs, text == signMiddle &&
			(at == signOurs || at == signBase):
			at, ok = text, true
		case text == signTheirs && at == signMiddle:
			at = ""
		default:
			return nil, nil, false
		}
	}
	if at != "" || !ok {
		return nil, nil, false
	}
	return ours, theirs, true
}
