//go:build !linux

package wasm

import "context"

// A memory gives modules their memory.
type memory struct{}

// reserving leaves memory to the engine, which copies it to let it grow.
func (*memory) reserving(ctx context.Context) context.Context { return ctx }
