package portable

import "fmt"

// MaxID is the most bytes of an id.
const MaxID = 200

// CheckID returns nil if id may name an item or a bundle, else an *Error. An id has at most 200 bytes; its segments
// have ASCII letters, digits, ".", "_" and "-" and begin with a letter or a digit; and it must be a portable path,
// because it becomes one. An error about the first two has the rule "id".
func CheckID(id string) error {
	if len(id) > MaxID {
		return &Error{Path: id, Rule: ruleID,
			Detail: fmt.Sprintf("is longer than %d bytes, too long for an id", MaxID)}
	}
	first := true
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case c == '/':
			first = true // Check refuses an empty segment
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
