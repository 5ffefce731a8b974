package materialise

import "io/fs"

// isForeign says no: the owner of a file is not what guards it on Windows.
func isForeign(fs.FileInfo) bool { return false }
