//go:build !linux

package worktree

import "os"

func openTarget(in *os.Root, name string) (target, error) { return openRootTarget(in, name) }

func (s *site) exchange() error { return s.swap() }
