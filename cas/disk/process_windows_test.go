package disk

import "os"

// stopProcess does nothing: a writer that sits idle is as good.
func stopProcess(*os.Process) error { return nil }

var replacementsHere map[string]func(path string) error
