package portable

import "fmt"

// MaxID is the number of bytes that an id may have.
const MaxID = 200

// CheckID returns nil if id may name an item or a bundle, else an *Error: it has at most 200 bytes, is made of
// segments of ASCII letters, digits, ".", "_" and "-" that begin with a letter or a digit, and is a portable
// path, for it becomes one. What is no id for another reason than that has the rule "id".
func CheckID(id string) error {
	if len(id) > MaxID {
		return &Error{Path: id, Rule: ruleID,
			Detail: fmt.Sprintf("is longer than %d bytes, too long for an id", MaxID)}
	}
	first := true
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case c == '/':
			first = true // Check sees to it that there was a segment
			continue
		case '0' <= c && c <= '9', 'a' <= lower(c) && lower(c) <= 'z':
		case !first && (c == '.' || c == '_' || c == '-'):
		default:
			return &Error{Path: id, Rule: ruleID,
				Detail: `is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`}
		}
		first = false
	}
	return Check(id)
}
