package portable

import "strings"

// The characters of names.
const (
	Lower   = "abcdefghijklmnopqrstuvwxyz"
	Upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits  = "0123456789"
	Letters = Lower + Upper
	Hex     = Digits + "abcdef"
)

// Spelled reports whether s has 1 to most bytes, begins with a character of first, and otherwise has only
// characters of first and more. Both are ASCII.
func Spelled(s, first, more string, most int) bool {
	if s == "" || len(s) > most || strings.IndexByte(first, s[0]) < 0 {
		return false
	}
	// Joining first and more would allocate for each line of a lock.
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(first, s[i]) < 0 && strings.IndexByte(more, s[i]) < 0 {
			return false
		}
	}
	return true
}
