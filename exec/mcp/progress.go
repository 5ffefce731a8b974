package mcp

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/limits"
)

// A progress notifies a client about a running tool or thread. It is nil if the client didn't ask for that.
type progress struct {
	token any
	tell  func(context.Context, *mcp.ProgressNotificationParams) error

	mu   sync.Mutex
	done float64 // bytes that a tool has written, or changes of threads
	last time.Time
	err  error // why nothing more can be told
}

// tellEvery is how often a client hears of a call at most.
const tellEvery = 100 * time.Millisecond

func progressOf(q *mcp.CallToolRequest) *progress {
	token := q.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return &progress{token: token, tell: q.Session.NotifyProgress}
}

// sink returns the sink for the tool's output.
func (p *progress) sink() primitive.Sink {
	if p == nil {
		return nil
	}
	return p
}

// Emit implements primitive.Sink. A client that can't be told learns the result all the same.
func (p *progress) Emit(_ primitive.Stream, b []byte) error {
	p.add(len(b), func() string {
		b = bytes.TrimSpace(b)
		return string(b[bytes.LastIndexByte(b, '\n')+1:])
	})
	return nil
}

// state notifies the client about a thread's progress.
func (p *progress) state(s thread.State) {
	if p != nil {
		p.add(1, func() string {
			return fmt.Sprintf("%s: turn %d, $%.4f", s.Thread, s.Turn, float64(s.Spend)/limits.Nano)
		})
	}
}

func (p *progress) add(n int, text func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += float64(n)
	now := time.Now()
	if p.err != nil || now.Sub(p.last) < tellEvery {
		return
	}
	p.last = now
	p.err = p.tell(context.Background(), &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: p.done,
		Message: fault.Clip(text(), 200)})
}
