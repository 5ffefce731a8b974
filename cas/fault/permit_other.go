//go:build !unix

package fault

// permit returns the command for a file that this user may not use.
func permit(string, string) string { return "rye doctor" }
