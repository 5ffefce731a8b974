// Package flags looks for what a tool server's texts hide, and for names that pass for others.
//
// What a server announces is read by a model, and it is written by a stranger. Two severities:
//
//	critical  characters that a person doesn't see and a model or a terminal does: tags, selectors without a base,
//	          zero width, changes of direction, escape sequences and other controls
//	warning   what a person sees and may want to look at: comments of HTML, long base64, long descriptions, text that
//	          gives orders, names that look like others, a description that speaks of another server's tool
//
// Sequences of emoji, ideographic variants, and joiners of scripts that need them are ordinary text.
package flags

import "fmt"

// A Class is a kind of finding.
type Class string

// The classes.
const (
	Hidden       Class = "hidden"       // characters without a picture
	Direction    Class = "direction"    // controls that change the order of what is shown
	Control      Class = "control"      // escape sequences and other control characters
	Comment      Class = "comment"      // <!-- in a text
	Base64       Class = "base64"       // a long run of it
	Long         Class = "long"         // a text of more than MaxText bytes
	Instructions Class = "instructions" // text that tells a model what to do
	Lookalike    Class = "lookalike"    // a name that looks like another of the same server
	Shadowing    Class = "shadowing"    // a name that is, or looks like, one of another server or of rye
	Mention      Class = "mention"      // a text that names another server's tool
)

// Critical reports whether a finding of the class keeps a tool from being called until a person accepts it by name.
func (c Class) Critical() bool { return c == Hidden || c == Direction || c == Control }

// A Flag is one finding.
type Flag struct {
	Class    Class  `json:"class"`
	Critical bool   `json:"critical"`
	Where    string `json:"where"` // the field, as in "description" or "inputSchema/properties/path/enum/0"
	Why      string `json:"why"`
}

func newFlag(c Class, where, format string, args ...any) Flag {
	return Flag{c, c.Critical(), where, fmt.Sprintf(format, args...)}
}

// AnyCritical reports whether one of the flags is critical.
func AnyCritical(all []Flag) bool {
	for _, f := range all {
		if f.Critical {
			return true
		}
	}
	return false
}
