package portable

import "strings"

// Characters that names are spelled with.
const (
	Lower   = "abcdefghijklmnopqrstuvwxyz"
	Upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits  = "0123456789"
	Letters = Lower + Upper
	Hex     = Digits + "abcdef"
)

// Spelled reports whether s has 1 to most bytes, begins with one of first, and goes on with these and those of more.
// Both are ASCII.
func Spelled(s, first, more string, most int) bool {
	if s == "" || len(s) > most || strings.IndexByte(first, s[0]) < 0 {
		return false
	}
	// One string of both would be an allocation for each line of a lock.
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(first, s[i]) < 0 && strings.IndexByte(more, s[i]) < 0 {
			return false
		}
	}
	return true
}
