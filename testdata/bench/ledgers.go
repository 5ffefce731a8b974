package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/ledger"
)

// spenders is how many processes change one ledger at once.
const spenders = 100

// spendMany has many processes make n changes of one ledger in all.
func spendMany(ctx context.Context, self, dir string, n int) error {
	path := filepath.Join(dir, "ledger")
	budget := int64(1) << 50
	l := ledger.In(path, nil)
	if err := errors.Join(l.Do(ctx, ledger.Open("root", "", 1, &budget, time.Now())), l.Shut()); err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, spenders)
	for i := range errs {
		group.Go(func() {
			var out proc.Head
			out.Room = 1000
			exit, err := proc.Run(ctx, proc.Command{Path: self,
				Args: []string{"-part", "spend", "-count", fmt.Sprint(n / spenders), "-data", path}, Stderr: &out})
			if err == nil && exit.Code != 0 {
				err = errors.New(out.String())
			}
			errs[i] = err
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// spend makes n changes of a ledger: reservations for calls and what they cost.
func spend(ctx context.Context, path string, n int) error {
	l := ledger.In(path, nil)
	defer l.Shut()
	budget, own := int64(1)<<30, fmt.Sprint("spender-", os.Getpid())
	if err := l.Do(ctx, ledger.Open(own, "root", 1, &budget, time.Now())); err != nil {
		return err
	}
	for i := range n / 2 {
		call := fmt.Sprint(i)
		if err := l.Do(ctx, ledger.Reserve(own, 1, call, 100)); err != nil {
			return err
		}
		if err := l.Do(ctx, ledger.Settle(own, 1, call, 40)); err != nil {
			return err
		}
	}
	return nil
}
