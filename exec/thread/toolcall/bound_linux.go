package toolcall

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rye-build/rye/exec/proc"
)

// watchEvery is how often processes are counted.
const watchEvery = time.Second

// bound sets the soft limits of this process, and watches what it starts.
func bound(ctx context.Context, over func(what string, most int64), memory, processes, seconds int64) {
	lower(syscall.RLIMIT_DATA, memory)
	busy := make(chan os.Signal, 1)
	signal.Notify(busy, syscall.SIGXCPU)
	lower(syscall.RLIMIT_CPU, seconds)
	go func() {
		defer signal.Stop(busy)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-busy:
				over("CPU seconds", seconds)
				return
			case <-tick.C:
				if int64(len(proc.Below(os.Getpid())))+1 > processes {
					over("processes", processes)
					return
				}
			}
		}
	}()
}

// lower lowers a soft limit, unless it is lower already.
func lower(resource int, to int64) {
	var l syscall.Rlimit
	if syscall.Getrlimit(resource, &l) == nil && uint64(to) < l.Cur {
		l.Cur = uint64(to)
		_ = syscall.Setrlimit(resource, &l) // it never fails for less
	}
}
