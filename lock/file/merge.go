package file

import (
	"bytes"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
)

// A MergeError is a lock with conflict markers of git, the first of them in this line.
type MergeError struct{ Line int }

func (e *MergeError) Error() string {
	return fmt.Sprintf("lock: line %d: unresolved merge conflict", e.Line)
}

// Fault implements the interface of package fault.
func (e *MergeError) Fault() *fault.Error {
	return fault.New(fault.LockMismatch, "%v", e).From(e).On("line", e.Line).Try("rye lock --resolve")
}

// The signs that git puts at the beginning of a line.
const (
	signOurs   = "<<<<<<<"
	signBase   = "|||||||"
	signMiddle = "======="
	signTheirs = ">>>>>>>"
)

// signOf returns which sign of git's a line begins with, or "".
func signOf(line []byte) string {
	for _, s := range []string{signOurs, signBase, signMiddle, signTheirs} {
		if bytes.HasPrefix(line, []byte(s)) {
			return s
		}
	}
	return ""
}

// mark returns the first line with a sign of git's, or 0.
func mark(b []byte) int {
	n := 0
	for line := range bytes.Lines(b) {
		if n++; signOf(line) != "" {
			return n
		}
	}
	return 0
}

// Sides takes a file in which git has left a merge unfinished apart into the two files that were to be merged, each
// with what could be merged; whether they are locks is Parse's matter. ok is false if the signs of git's don't come
// in their order, or there are none.
func Sides(b []byte) (ours, theirs []byte, ok bool) {
	at := "" // the sign that was last, "" outside
	for line := range bytes.Lines(b) {
		s := signOf(line)
		switch {
		case s == "":
			if at == "" || at == signOurs {
				ours = append(ours, line...)
			}
			if at == "" || at == signMiddle {
				theirs = append(theirs, line...)
			}
		case s == signOurs && at == "", s == signBase && at == signOurs, s == signMiddle &&
			(at == signOurs || at == signBase):
			at, ok = s, true
		case s == signTheirs && at == signMiddle:
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
