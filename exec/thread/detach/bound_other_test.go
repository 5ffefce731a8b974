//go:build !linux

package detach_test

func bounded(string) {}
