//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAlone waits for somebody else's work on a project: at first silently, then it says so once, and it gives up in the
// end. It runs against the fake clock of a synctest bubble.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, markerFile), []byte("name: a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	theirs, err := lockProject(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		screen := new(lockedBuffer)
		h, _, _ := testHost("HOME=" + filepath.Dir(dir))
		h.stderr = stream{Writer: screen}
		a := &app{host: h, term: h.terminal(true)}
		a.globals.Project = dir
		wait := func() <-chan error {
			got := make(chan error)
			go func() {
				unlock, err := a.alone(t.Context(), false)
				if err == nil {
					unlock()
				}
				got <- err
			}()
			return got
		}
		got := wait()
		time.Sleep(waitNoted - time.Millisecond)
		synctest.Wait()
		if said := screen.take(); said != "" {
			t.Errorf("at once: %q", said)
		}
		time.Sleep(lockWait / 2)
		synctest.Wait()
		if said := screen.take(); said != "waiting for another rye that works on \""+dir+"\", 30s at most\n" {
			t.Errorf("after a second: %q", said)
		}
		var busy *fault
		if err := <-got; !errors.As(err, &busy) || busy.code != "BUSY" || !strings.Contains(busy.message, dir) {
			t.Errorf("%v", err)
		}
		got = wait()
		time.Sleep(waitNoted / 2)
		theirs()
		if err := <-got; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if said := screen.take(); said != "" {
			t.Errorf("there was nothing to wait for: %q", said)
		}
	})
}
