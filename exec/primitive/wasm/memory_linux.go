package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// A memory allocates the memory of modules that run one after the other. The zero memory is ready to use.
type memory struct {
	spare *reserved // of an ended module; nil: none
}

// maxSpare bounds the memory that is used again. Larger memory returns to the system, because clearing it covers the
// most that was ever used.
const maxSpare = 16 << 20

// reserving reserves a module's memory up to its limit and commits it in pieces. Memory that grows by copying
// sometimes needs twice as much, and would hit the system's limit before its own.
//
// It clears and uses the previous module's memory again, which is faster than getting new pages.
func (m *memory) reserving(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx,
		experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
			if r := m.spare; r != nil && uint64(len(r.whole)) == most {
				m.spare = nil
				clear(r.whole[:r.given])
				return r
			}
			whole, err := unix.Mmap(-1, 0, int(max(most, 1)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|
				unix.MAP_NORESERVE)
			if err != nil {
				panic(err) // ends this child, which runs nothing else
			}
			_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // a few large pages are faster than many small ones
			return &reserved{of: m, whole: whole}
		}))
}

// A reserved is the memory of a module.
type reserved struct {
	of    *memory
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
func (r *reserved) Free() {
	if r.of.spare == nil && r.given <= maxSpare {
		r.of.spare = r
		return
	}
	unix.Munmap(r.whole)
}
