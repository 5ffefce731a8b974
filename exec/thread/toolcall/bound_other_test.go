//go:build !linux

package toolcall_test

func bounded(string) {}
