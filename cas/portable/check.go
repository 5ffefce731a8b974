package portable

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxPath is the most bytes of a path.
	MaxPath = 1000
	// MaxSegment is the most bytes of a segment.
	MaxSegment = 255
	// maxMarks is about half of the limit that UAX #15 calls stream-safe, so that decomposing the letters of an
	// allowed name never exceeds the limit of a normaliser.
	maxMarks = 16
)

// Check returns nil if the path is allowed on every system, else an *Error. For a valid ASCII path it doesn't
// allocate.
func Check(path string) error {
	if err := checkWhole(path); err != nil {
		return err
	}
	return checkFrom(path, 0)
}

// checkWhole applies the rules that aren't about a segment.
func checkWhole(path string) error {
	switch {
	case path == "":
		return &Error{Rule: ruleEmpty, Detail: "is empty"}
	case len(path) > MaxPath:
		return &Error{Path: path, Rule: rulePathLength, Detail: fmt.Sprintf("is longer than %d bytes", MaxPath)}
	case path[0] == '/':
		return &Error{Path: path, Rule: ruleAbsolute, Detail: "is absolute, expected a relative path"}
	}
	return nil
}

// checkFrom checks the segments of path, beginning with the one at start.
func checkFrom(path string, start int) error {
	seen := kind(0)
	for i := start; i < len(path); i++ {
		k := kinds[path[i]]
		if k == slash {
			if err := checkSegment(path, path[start:i], seen); err != nil {
				return err
			}
			start, seen = i+1, 0
			continue
		}
		seen |= k
	}
	return checkSegment(path, path[start:], seen)
}

// CheckName is Check for a single segment: a name with "/" in it is an error.
func CheckName(name string) error {
	if name == "" {
		return &Error{Rule: ruleEmpty, Detail: "is empty"}
	}
	seen := kind(0)
	for i := 0; i < len(name); i++ {
		seen |= kinds[name[i]]
	}
	return checkSegment("", name, seen)
}

// checkSegment checks a segment. seen is the union of the kinds of its bytes, which the caller has determined.
func checkSegment(path, segment string, seen kind) error {
	if seen == 0 && plain(segment) {
		return nil
	}
	// judge starts again at the beginning: odd segments are rare, or end the check.
	if rule, detail := judge(segment); rule != "" {
		return &Error{Path: path, Segment: segment, Rule: rule, Detail: detail}
	}
	return nil
}

// plain reports whether a segment without odd bytes is certainly allowed.
func plain(segment string) bool {
	n := len(segment)
	if n == 0 || n > MaxSegment {
		return false
	}
	if last := segment[n-1]; last == '.' || last == ' ' {
		return false
	}
	return !device(segment) && !dropping(segment)
}

// judge returns the first rule that a segment breaks and the sentence about it, or two empty strings. It tries the
// rules with the clearest answers first.
func judge(segment string) (rule, detail string) {
	switch {
	case segment == "":
		return ruleEmpty, "has an empty segment"
	case segment == "." || segment == "..":
		return ruleDot, "is not a name"
	case len(segment) > MaxSegment:
		return ruleSegmentLength, fmt.Sprintf("is longer than %d bytes", MaxSegment)
	}
	composes := false
	for i, r := range segment {
		composes = composes || r >= firstComposing
		if r == utf8.RuneError && !strings.HasPrefix(segment[i:], "\uFFFD") {
			return ruleUTF8, fmt.Sprintf("is not UTF-8 at byte %d", i)
		}
		if r < utf8.RuneSelf && strings.IndexByte(`/\:<>"|?*`, byte(r)) >= 0 {
			return ruleCharacter, fmt.Sprintf("has %q in it, which some systems don't allow in a name", r)
		}
		if c := classify(r); c > mark {
			return c.rule(), fmt.Sprintf("has %U in it, which is %s", r, c.what())
		}
	}
	if composes {
		if rule, detail = judgeForm(segment); rule != "" {
			return rule, detail
		}
	}
	return judgeName(segment)
}

// firstComposing is the first combining mark. Normalization Form C allows all code points below it everywhere.
const firstComposing = 0x300

// judgeForm applies the rules about combining marks and normal form to a segment of assigned code points.
func judgeForm(segment string) (rule, detail string) {
	var before rune // the previous code point
	marks := 0      // the number of marks in a row up to it
	moves := false  // folding would move a mark to an iota
	for _, r := range segment {
		if classify(r) != mark {
			marks = 0
		} else if marks++; marks > maxMarks {
			return ruleMarks, fmt.Sprintf("has more than %d combining marks in a row", maxMarks)
		} else if marks == 1 && r != iotaSubscript {
			moves = moves || hasIota(before)
		}
		before = r
	}
	switch {
	case !norm.NFC.IsNormalString(segment):
		return ruleNFC, "is not in Unicode Normalization Form C, expected " + quote(norm.NFC.String(segment))
	case moves:
		return ruleFold, "has an iota subscript with a mark after it, which systems fold in different ways"
	}
	return "", ""
}

// iotaSubscript is the only mark that folds to a letter. Its combining class is the highest, so in normal form no
// other mark follows it; but other marks can follow a letter composed with it.
const iotaSubscript = '\u0345'

func hasIota(r rune) bool {
	decomposed := norm.NFC.PropertiesString(string(r)).Decomposition()
	return strings.HasSuffix(string(decomposed), string(iotaSubscript))
}

// judgeName applies the rules about whole names to a segment of allowed characters.
func judgeName(segment string) (rule, detail string) {
	switch last := segment[len(segment)-1]; last {
	case '.':
		return ruleTrailing, "ends in a dot, which Windows drops"
	case ' ':
		return ruleTrailing, "ends in a space, which Windows drops"
	}
	switch {
	case device(segment):
		return ruleDevice, "is a device on Windows"
	case shortName(segment):
		return ruleShortName, `has the form of a short name ("x~1"), which Windows takes for another file`
	case equalFold(segment, ".git"):
		return ruleGit, "is the directory of a git repository"
	case Droppings(segment):
		return ruleDropping, "is never part of a tree"
	}
	return "", ""
}
