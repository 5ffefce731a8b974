//go:build !linux

package wasm

import "context"

// A memory allocates the memory of modules.
type memory struct{}

// reserving leaves the memory to the engine, which grows it by copying.
func (*memory) reserving(ctx context.Context) context.Context { return ctx }
