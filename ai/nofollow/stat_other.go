//go:build !linux && !darwin

package nofollow

import "io/fs"

// StatOf returns nothing: without a change time that programs can't set, an edit could go unnoticed.
func StatOf(fs.FileInfo) Stat { return Stat{} }
