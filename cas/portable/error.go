package portable

import (
	"fmt"
	"strconv"
)

// An Error tells why a name, path, id or set is refused.
type Error struct {
	Path    string // the whole path, or the id; empty when a single name was asked about
	Segment string // the segment at fault; empty when it is the path as a whole
	Rule    string // the rule, by its name in the package comment: stable
	Detail  string // what about it, as a sentence without its subject
}

// Error quotes what it names in ASCII, so that nothing in a name reaches a terminal or hides from a reader.
func (e *Error) Error() string {
	switch {
	case e.Path == "" && e.Rule != ruleEmpty:
		return "name " + quote(e.Segment) + " " + e.Detail
	case e.Segment == "" || e.Segment == e.Path:
		return "path " + quote(e.Path) + " " + e.Detail
	}
	return "path " + quote(e.Path) + ": " + quote(e.Segment) + " " + e.Detail
}

// quoteMax bounds what a message repeats of a hostile name.
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
