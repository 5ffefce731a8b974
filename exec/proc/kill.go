package proc

import (
	"errors"
	"os"
)

// KillTree kills a process that began at start, with its descendants. It leaves a process with another start alone,
// and returns os.ErrProcessDone.
func KillTree(pid int, start string) error {
	if pid <= 0 || start == "" {
		return os.ErrProcessDone
	}
	below := map[int]string{}
	for _, p := range Below(pid) {
		below[p] = Start(p)
	}
	// Kill the root first, so that it starts nothing more.
	if err := killOne(pid, start); err != nil {
		return err
	}
	for len(below) > 0 {
		more := map[int]string{}
		for p, start := range below {
			for _, q := range Below(p) {
				if below[q] == "" {
					more[q] = Start(q)
				}
			}
			if err := killOne(p, start); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
		below = more
	}
	return nil
}

// killOne kills one process. It compares the start after opening the process, so that it can't kill a later process
// with the same number.
func killOne(pid int, start string) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if start == "" || Start(pid) != start {
		return os.ErrProcessDone
	}
	return p.Kill()
}
