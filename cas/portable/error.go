package portable

import (
	"fmt"
	"strconv"
)

// An Error is the reason to refuse a name, path, id or set.
type Error struct {
	Path    string // the whole path, or the id; empty if a single name was checked
	Segment string // the segment at fault; empty if the whole path is
	Rule    string // the rule's name in the package comment: stable
	Detail  string // the mistake, as a sentence without its subject
}

// Error quotes names in ASCII, so that no control character reaches a terminal and no character is invisible.
func (e *Error) Error() string {
	switch {
	case e.Path == "" && e.Rule != ruleEmpty:
		return "name " + quote(e.Segment) + " " + e.Detail
	case e.Segment == "" || e.Segment == e.Path:
		return "path " + quote(e.Path) + " " + e.Detail
	}
	return "path " + quote(e.Path) + ": " + quote(e.Segment) + " " + e.Detail
}

// quoteMax bounds the bytes of a hostile name that a message repeats.
const quoteMax = 200

func quote(s string) string {
	if len(s) <= quoteMax {
		return strconv.QuoteToASCII(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.QuoteToASCII(s[:quoteMax]), len(s))
}

// The rules, as the package comment explains them.
const (
	ruleEmpty         = "empty"
	ruleDot           = "dot"
	ruleAbsolute      = "absolute"
	rulePathLength    = "path-length"
	ruleSegmentLength = "segment-length"
	ruleUTF8          = "utf8"
	ruleCharacter     = "character"
	ruleControl       = "control"
	ruleIgnorable     = "ignorable"
	ruleUnassigned    = "unassigned"
	ruleNoncharacter  = "noncharacter"
	rulePrivateUse    = "private-use"
	ruleMarks         = "marks"
	ruleNFC           = "nfc"
	ruleFold          = "fold"
	ruleTrailing      = "trailing"
	ruleDevice        = "device"
	ruleShortName     = "short-name"
	ruleGit           = "git"
	ruleDropping      = "dropping"
	ruleOrder         = "order"
	ruleDuplicate     = "duplicate"
	rulePrefix        = "prefix"
	ruleID            = "id"
)
