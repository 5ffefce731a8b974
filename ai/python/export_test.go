package python

// ByPattern reads all of a file by pattern, as Read does after a mistake.
func ByPattern(src []byte) *Module { return read(src, true) }
