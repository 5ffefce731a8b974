package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// reserving reserves a module's memory up to its limit and commits it piece by piece. Memory that grows by copying needs
// twice as much at times, and would hit the system's limit before its own.
func reserving(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		whole, err := unix.Mmap(-1, 0, int(max(most, 1)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			panic(err) // ends this child; nothing else runs in it
		}
		_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // each call has new memory: a few large pages take less time than many small ones
		return &reserved{whole: whole}
	}))
}

// A reserved is the memory of a module.
type reserved struct {
	whole []byte
	given uint64
}

// Reallocate implements experimental.LinearMemory.
func (r *reserved) Reallocate(size uint64) []byte {
	if size > uint64(len(r.whole)) {
		return nil
	}
	if size > r.given {
		if unix.Mprotect(r.whole[r.given:size], unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		r.given = size
	}
	return r.whole[:size:size]
}

// Free implements experimental.LinearMemory.
func (r *reserved) Free() { unix.Munmap(r.whole) }
