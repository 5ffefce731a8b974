//go:build !linux

package disk

import "os"

// syncData makes f's bytes and its length durable.
func syncData(f *os.File) error { return f.Sync() }
