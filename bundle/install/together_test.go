package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/rollback"
)

func TestBusy(t *testing.T) {
	w := newWorld(t)
	one := w.bring("1.0.0", "one")
	inside, leave := make(chan bool), make(chan bool)
	done := make(chan error, 1)
	go func() {
		done <- w.space.locked(context.Background(), func(*files) error {
			inside <- true
			<-leave
			return nil
		})
	}()
	<-inside
	other := w.open(w.store, nil)
	other.Wait = time.Millisecond
	_, err := other.Install(t.Context(), Request{ID: one.ID}, options())
	if err == nil || fault.CodeOf(err) != fault.Busy || !strings.HasSuffix(err.Error(), "is in use: waited 1ms") {
		t.Errorf("while another one changes it: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.open(w.store, nil).locked(ctx, func(*files) error { return nil }); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.install(one, true); err != nil {
		t.Error(err)
	}
}

// TestTogether: many at once leave the highest version.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	var all []*manifest.FileList
	for i := range 6 {
		all = append(all, w.bring(fmt.Sprintf("1.%d.0", i), fmt.Sprint("text ", i)))
	}
	var wait sync.WaitGroup
	for _, l := range all {
		wait.Go(func() {
			_, err := w.open(w.store, nil).Install(context.Background(), Request{ID: l.ID, ByName: true}, options())
			if _, back := errors.AsType[*rollback.Error](err); err != nil && !back {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if !strings.HasPrefix(w.state(), "1.5.0") {
		t.Errorf("the state is %q", w.state())
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	at := filepath.Join(w.space.Dir, "bundles/acme/demo/manifest.yaml")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.space.Get("acme/demo"); err == nil ||
		err.Error() != `"bundles/acme/demo/manifest.yaml": not a regular file` {
		t.Errorf("a directory: %v", err)
	}
	if b, err := readAll(strings.NewReader("12345"), 3); err == nil || err.Error() != "has more than 3 bytes" {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	names := map[string]bool{"1.0.0-0123456789ab.yaml": true, "manifest.yaml": false, "x-0123456789ab.yaml": false,
		"1.0.0-01234567.yaml": false, "1.0.0.yaml": false,
		"2.0.0-rc.1+x-0123456789ab.yaml": true, "1.0.0-0123456789ab": false}
	for name := range maps.Keys(names) {
		if isHistory(name) != names[name] {
			t.Errorf("%s", name)
		}
	}
}
