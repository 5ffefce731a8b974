package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sync"
)

// Memory is a store in memory, for tests and for objects that are never written to disk. The zero Memory is an empty
// store. It is safe for concurrent use and must not be copied.
type Memory struct {
	mu      sync.RWMutex
	objects map[ID][]byte
}

var (
	_ Store   = (*Memory)(nil)
	_ Batcher = (*Memory)(nil)
	_ Visitor = (*Memory)(nil)
	_ Lister  = (*Memory)(nil)
	_ Deleter = (*Memory)(nil)
)

// Get implements Getter.
func (m *Memory) Get(ctx context.Context, id ID) (Object, error) {
	if ctx.Err() != nil {
		return Object{}, context.Cause(ctx)
	}
	m.mu.RLock()
	b, ok := m.objects[id]
	m.mu.RUnlock()
	if !ok {
		return Object{}, NotFound(id)
	}
	return Verify(Info{id, int64(len(b))}, io.NopCloser(bytes.NewReader(b))), nil
}

// Put implements Putter.
func (m *Memory) Put(ctx context.Context, kind Kind, r io.Reader) (Info, error) {
	id, b, err := readObject(ctx, kind, r)
	if err != nil {
		return Info{}, err
	}
	m.add(map[ID][]byte{id: b})
	return Info{id, int64(len(b))}, nil
}

// add makes objects visible, all at once.
func (m *Memory) add(objects map[ID][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = make(map[ID][]byte)
	}
	maps.Copy(m.objects, objects)
}

// readObject reads r to its end and returns the bytes and their ID.
func readObject(ctx context.Context, kind Kind, r io.Reader) (ID, []byte, error) {
	if err := checkPut(ctx, kind); err != nil {
		return ID{}, nil, err
	}
	b, err := io.ReadAll(Until(ctx, r))
	return ID{kind, Sum(b)}, b, err
}

func checkPut(ctx context.Context, kind Kind) error {
	if kind < Blob || kind > Document {
		return fmt.Errorf("invalid kind of object: %s", kind)
	}
	return context.Cause(ctx)
}

// Missing implements Misser.
func (m *Memory) Missing(ctx context.Context, ids []ID) ([]ID, error) {
	return m.missing(ctx, ids, nil)
}

func (m *Memory) missing(ctx context.Context, ids []ID, more map[ID][]byte) ([]ID, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []ID
	for _, id := range ids {
		if _, ok := m.objects[id]; ok {
			continue
		}
		if _, ok := more[id]; !ok {
			out = append(out, id)
		}
	}
	return out, nil
}

// Visit implements Visitor.
func (m *Memory) Visit(ctx context.Context, ids []ID, visit func(i int, o Object) error) error {
	return Parallel(ctx, 0, len(ids), func(ctx context.Context, i int) error {
		o, err := m.Get(ctx, ids[i])
		if err != nil {
			return err
		}
		defer o.Close()
		return visit(i, o)
	})
}

// List implements Lister. It lists the objects that existed when it began.
func (m *Memory) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m.mu.RLock()
		all := make([]Info, 0, len(m.objects))
		for id, b := range m.objects {
			all = append(all, Info{id, int64(len(b))})
		}
		m.mu.RUnlock()
		for _, info := range all {
			if ctx.Err() != nil {
				yield(Info{}, context.Cause(ctx))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Delete implements Deleter.
func (m *Memory) Delete(ctx context.Context, ids ...ID) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.objects, id)
	}
	return nil
}

// Batch implements Batcher.
func (m *Memory) Batch(ctx context.Context) (Batch, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &memoryBatch{store: m, objects: make(map[ID][]byte)}, nil
}

type memoryBatch struct {
	store *Memory

	mu      sync.RWMutex
	objects map[ID][]byte // nil once the batch has ended
}

var errBatchEnded = errors.New("the batch has ended")

func (b *memoryBatch) Put(ctx context.Context, kind Kind, r io.Reader) (Info, error) {
	id, data, err := readObject(ctx, kind, r)
	if err != nil {
		return Info{}, err
	}
	return Info{id, int64(len(data))}, b.add(id, data)
}

func (b *memoryBatch) PutBytes(ctx context.Context, kind Kind, data []byte) (Digest, error) {
	id := ID{kind, Sum(data)}
	if err := checkPut(ctx, kind); err != nil {
		return Digest{}, err
	}
	return id.Digest, b.add(id, bytes.Clone(data))
}

func (b *memoryBatch) add(id ID, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil {
		return errBatchEnded
	}
	b.objects[id] = data
	return nil
}

func (b *memoryBatch) Missing(ctx context.Context, ids []ID) ([]ID, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.store.missing(ctx, ids, b.objects)
}

func (b *memoryBatch) Commit(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil {
		return errBatchEnded
	}
	b.store.add(b.objects)
	b.objects = nil
	return nil
}

func (b *memoryBatch) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects = nil
	return nil
}
