// Package flags finds hidden content in the texts of a tool server, and names that imitate others.
//
// A model reads the texts that a server announces, and a stranger writes them. The severities are:
//
//	critical  characters that a model or a terminal sees and a person doesn't: tags, selectors without a base,
//	          zero width, changes of direction, escape sequences and other controls
//	warning   visible text to review: HTML comments, long base64, long descriptions, text that
//	          gives orders, names that look like others, a description that mentions another server's tool
//
// Emoji sequences, ideographic variants, and joiners of scripts that require them are ordinary text.
//
// # How a text goes through here
//
// Text checks the characters, length, comments, base64 and orders of one text. Value calls Text for all texts and
// member names of a JSON value, and sentence for those of a schema. Names compares names by their Skeleton,
// Mentions looks for the names of others, and URI checks an address.
package flags

import "fmt"

// A Class is a kind of finding.
type Class string

// The classes.
const (
	Hidden       Class = "hidden"       // invisible characters
	Direction    Class = "direction"    // controls that change the displayed order
	Control      Class = "control"      // escape sequences and other control characters
	Comment      Class = "comment"      // an HTML comment
	Base64       Class = "base64"       // a long run of base64
	Long         Class = "long"         // a text of more than MaxText bytes
	Instructions Class = "instructions" // text that gives a model orders
	Lookalike    Class = "lookalike"    // a name that looks like another of the same server
	Shadowing    Class = "shadowing"    // a name that equals or resembles one of another server or of rye
	Mention      Class = "mention"      // a text that names another server's tool
)

// Critical reports whether a finding of the class blocks a tool until a person accepts it by name.
func (c Class) Critical() bool { return c == Hidden || c == Direction || c == Control }

// A Flag is one finding.
type Flag struct {
	Class    Class  `json:"class"`
	Critical bool   `json:"critical"`
	Where    string `json:"where"` // the field, such as "description" or "inputSchema/properties/path/enum/0"
	Why      string `json:"why"`
}

func newFlag(c Class, where, format string, args ...any) Flag {
	return Flag{c, c.Critical(), where, fmt.Sprintf(format, args...)}
}

// AnyCritical reports whether any flag is critical.
func AnyCritical(all []Flag) bool {
	for _, f := range all {
		if f.Critical {
			return true
		}
	}
	return false
}
