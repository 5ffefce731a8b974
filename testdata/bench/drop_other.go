//go:build !linux

package main

import "os"

// drop can't be asked for here.
func drop(*os.File) error { return nil }
