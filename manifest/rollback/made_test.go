package rollback

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// A journal that is made while it is read isn't lost.
func TestJournalMade(t *testing.T) {
	made := newJournal(t)
	mustRecord(t, made, step("bundle:a", "1.0.0", "x"))
	for round := range 10000 {
		j := Journal{Path: fmt.Sprint(made.Path, round)}
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for {
					if seen, err := j.Seen(); err != nil || len(seen) > 0 {
						if err != nil {
							t.Errorf("round %d: %v", round, err)
						}
						return
					}
				}
			})
		}
		for _, name := range []func(*Journal) string{func(j *Journal) string { return j.Path }, (*Journal).lockPath} {
			if err := os.Link(name(made), name(&j)); err != nil {
				t.Fatal(err)
			}
		}
		readers.Wait()
		if t.Failed() {
			return
		}
	}
}
