package mcp

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A thousand calls at once share one server, and nothing of a call is left behind.
func TestMany(t *testing.T) {
	d := definitions(t)
	c := client(t)
	a := calling(t, d["echo"], "echo", nil)
	many := 1000
	if testing.Short() {
		many = 200
	}
	var all sync.WaitGroup
	for i := range many {
		mine := *a
		mine.Config = maps.Clone(a.Config)
		text := fmt.Sprint("call ", i)
		mine.Config["arguments"] = fmt.Sprintf(`{"text": %q}`, text)
		all.Go(func() {
			if r, err := c.Run(t.Context(), &mine, nil); err != nil || r.Value != text {
				t.Errorf("%s: %+v, %v", text, r, err)
			}
		})
	}
	all.Wait()
	if len(c.kept) != 1 {
		t.Errorf("%d servers", len(c.kept))
	}
	for _, k := range c.kept {
		k.calls.Range(func(token, _ any) bool {
			t.Errorf("the call %v is left", token)
			return true
		})
		// the newest revision has a request that waits for notices
		if l := k.peer.(*process).lines; len(l.waiting) > 2 {
			t.Errorf("%d requests are left", len(l.waiting))
		}
	}
}

// Which service an action asks is its host.
func TestAsks(t *testing.T) {
	c := client(t)
	if got := c.Asks(map[string]any{"transport": "http", "url": "https://A.example/x"}); got != "a.example:443" {
		t.Errorf("%q", got)
	}
	if got := c.Asks(map[string]any{"transport": "stdio", "command": "x"}); got != "" {
		t.Errorf("%q", got)
	}
}

// Many calls of a server leave nothing behind.
func TestMemory(t *testing.T) {
	c := client(t)
	a := calling(t, definitions(t)["echo"], "echo", map[string]any{"text": strings.Repeat("x", 10_000)})
	use := func(calls int) (heap uint64, goroutines int) {
		for range calls {
			if r := run(t, c, a, nil); r.Failed {
				t.Fatalf("%+v", r)
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	many := 2000
	if testing.Short() {
		many = 300
	}
	heap, goroutines := use(100)
	if h, g := use(many); h > heap+1<<20 || g > goroutines+2 {
		t.Errorf("after %d calls %d bytes and %d goroutines, after 100 %d and %d", many, h, g, heap, goroutines)
	}
}
