package mcp

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
)

// TestListingFails: while a server that has said that its tools changed doesn't list them, none of them is believed to
// be what it was: a call would reach a tool that the user never accepted.
func TestListingFails(t *testing.T) {
	server, ctx := mcptest.New(mcptest.Options{}), t.Context()
	var broken atomic.Bool
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, q mcp.Request) (mcp.Result, error) {
			if method == "tools/list" && broken.Load() {
				return nil, errors.New("broken")
			}
			return next(ctx, method, q)
		}
	})
	ours, theirs := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer serving.Close()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "rye"}, nil).Connect(ctx, ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	k := &connection{session: session, listing: make(chan struct{}, 1), tokens: maxListings, filled: time.Now()}
	k.stale.Store(true)
	first, err := k.definitions(ctx)
	if err != nil || len(first) == 0 {
		t.Fatal(err)
	}
	k.stale.Store(true) // the server says so once
	broken.Store(true)
	for range 2 {
		all, err := k.definitions(ctx)
		if _, is := errors.AsType[*listError](err); !is || all != nil {
			t.Errorf("%d definitions, %v", len(all), err)
		}
	}
	broken.Store(false)
	if all, err := k.definitions(ctx); err != nil || len(all) != len(first) {
		t.Errorf("%d definitions, %v", len(all), err)
	}
}
