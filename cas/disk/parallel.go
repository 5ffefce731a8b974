package disk

import (
	"runtime"
	"sync"
)

// parallel runs f on as many goroutines as there are processors and returns the first error any of them gave.
func parallel(f func() error) error {
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			if err := f(); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	return first
}
