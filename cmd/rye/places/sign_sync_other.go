//go:build !linux

package places

import "os"

// HasBarrier says that syncSystem waits for everything that was written: here nothing does, so each file is waited
// for.
const HasBarrier = false

func SyncSystem(*os.Root) error { return nil }
