package restore_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// countdown is a context that ends when it was asked a number of times whether it has.
type countdown struct {
	context.Context
	end  context.CancelFunc
	mu   sync.Mutex
	left int
}

func newCountdown(t *testing.T, asks int) *countdown {
	ctx, end := context.WithCancel(t.Context())
	return &countdown{Context: ctx, end: end, left: asks}
}

func (c *countdown) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		c.end()
	}
}

func (c *countdown) Err() error {
	c.step()
	return c.Context.Err()
}

func (c *countdown) Done() <-chan struct{} {
	c.step()
	return c.Context.Done()
}

// Interrupted at whatever moment, each call says so and leaves what the next call makes good.
func TestInterruptedAnywhere(t *testing.T) {
	const other = "# Other\n"
	for name, c := range map[string]struct {
		prepare func(p *projecttest.Project)
		call    func(ctx context.Context, l *workspace.Lock) error
	}{
		"fetch from the vendor directory": {
			prepare: func(p *projecttest.Project) { p.ForgetStore() },
			call: func(ctx context.Context, l *workspace.Lock) error {
				_, err := restore.Fetch(ctx, l)
				return err
			},
		},
		"fetch from the project": {
			prepare: func(p *projecttest.Project) { p.ForgetStore(); p.Remove(vendorDir) },
			call: func(ctx context.Context, l *workspace.Lock) error {
				_, err := restore.Fetch(ctx, l)
				return err
			},
		},
		"vendor": {
			prepare: func(p *projecttest.Project) { p.Remove(vendorDir) },
			call: func(ctx context.Context, l *workspace.Lock) error {
				_, err := restore.Vendor(ctx, l, restore.FetchResult{})
				return err
			},
		},
		"check": {
			prepare: func(p *projecttest.Project) {},
			call: func(ctx context.Context, l *workspace.Lock) error {
				_, err := restore.CheckVendor(ctx, l)
				return err
			},
		},
		"restore": {
			prepare: func(p *projecttest.Project) {
				p.Write(projecttest.NoteFile, other)
				p.Remove(projecttest.TablesFile)
			},
			call: func(ctx context.Context, l *workspace.Lock) error {
				_, err := restore.Restore(ctx, l, l.Old.Pins, false)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := vendored(t)
			note, tables := p.Read(projecttest.NoteFile), p.Read(projecttest.TablesFile)
			ended := 0
			for n := 0; ; n++ {
				c.prepare(p)
				l := p.Lock()
				ctx := newCountdown(t, n)
				err := c.call(ctx, l)
				if err == nil {
					break
				}
				if ended++; !errors.Is(err, context.Canceled) {
					t.Fatalf("step %d: %v", n, err)
				}
				if now := p.Read(projecttest.NoteFile); now != note && now != other {
					t.Errorf("step %d: %q", n, now)
				}
				if entries, err := os.ReadDir(p.At(".ai/tools/acme/shop")); err != nil || len(entries) > 3 {
					t.Errorf("step %d: %v, %v", n, entries, err)
				}
				if err := c.call(t.Context(), p.Lock()); err != nil {
					t.Fatalf("after step %d: %v", n, err)
				}
			}
			if p.Read(projecttest.NoteFile) != note || p.Read(projecttest.TablesFile) != tables || ended < 3 {
				t.Errorf("%d times interrupted: %q", ended, p.Read(projecttest.NoteFile))
			}
		})
	}
}
