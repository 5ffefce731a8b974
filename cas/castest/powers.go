package castest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/rye-build/rye/cas"
)

// visitor returns a test that runs f if the store is a cas.Visitor.
func visitor(f func(*suite, cas.Visitor)) func(*suite) {
	return func(s *suite) {
		if v, ok := s.Store.(cas.Visitor); ok {
			f(s, v)
		}
	}
}

// objects puts many different objects of all sizes, in several batches. It returns them, some of them twice.
func (s *suite) objects() (objects [][]byte, ids []cas.ID) {
	objects = small(1, 1500)
	for i, n := range sizes()[1:] {
		objects = append(objects, contents[i%2].make(1, n))
	}
	for part := 0; part < len(objects); part += 400 {
		s.putAll(objects[part:min(part+400, len(objects))])
	}
	objects = append(objects, objects[:300]...)
	objects = append(objects, objects[1490:]...)
	for _, b := range objects {
		ids = append(ids, infoOf(cas.Blob, b).ID)
	}
	return objects, ids
}

// putAll puts many objects, in one batch if the store has batches.
func (s *suite) putAll(objects [][]byte) {
	p := cas.Putter(s.Store)
	if b, ok := s.Store.(cas.Batcher); ok {
		batch := s.begin(b)
		defer s.commit(batch)
		p = batch
	}
	for _, b := range objects {
		s.put(p, cas.Blob, b)
	}
}

func (s *suite) visit(v cas.Visitor) {
	if err := v.Visit(s.ctx, nil, func(int, cas.Object) error { return errors.New("visited") }); err != nil {
		s.Errorf("Visit of nothing: %v", err)
	}
	objects, ids := s.objects()
	visits := make([]atomic.Int32, len(ids))
	err := v.Visit(s.ctx, ids, func(i int, o cas.Object) error {
		visits[i].Add(1)
		if o.Info != infoOf(cas.Blob, objects[i]) {
			return fmt.Errorf("the object of %s is %v", name(objects[i]), o.Info)
		}
		if i%10 == 0 {
			return nil // a visit need not read the object
		}
		got, err := io.ReadAll(o)
		if err == nil && !bytes.Equal(got, objects[i]) {
			err = fmt.Errorf("reading %s returned %d other bytes", name(objects[i]), len(got))
		}
		return err
	})
	if err != nil {
		s.Fatalf("Visit: %v", err)
	}
	for i := range visits {
		if n := visits[i].Load(); n != 1 {
			s.Fatalf("number %d of %d was visited %d times", i, len(ids), n)
		}
	}
}

func (s *suite) visitMissing(visitor cas.Visitor) {
	objects := small(2, 50)
	s.putAll(objects)
	for _, at := range []int{0, 25, 50} {
		var ids []cas.ID
		for i, b := range objects {
			if i == at {
				ids = append(ids, infoOf(cas.Blob, []byte("not there")).ID)
			}
			ids = append(ids, infoOf(cas.Blob, b).ID)
		}
		if at == len(objects) {
			ids = append(ids, infoOf(cas.TreeKind, objects[0]).ID)
		}
		err := visitor.Visit(s.ctx, ids, func(i int, o cas.Object) error {
			if i == at {
				return errors.New("visited what is not there")
			}
			return nil
		})
		if !errors.Is(err, fs.ErrNotExist) {
			s.Errorf("Visit of %d objects without number %d: error %v, want fs.ErrNotExist", len(ids), at, err)
		}
	}
}

func (s *suite) visitError(v cas.Visitor) {
	_, ids := s.objects()
	errVisit := errors.New("seen enough")
	var visits atomic.Int32
	err := v.Visit(s.ctx, ids, func(i int, o cas.Object) error {
		visits.Add(1)
		return errVisit
	})
	if !errors.Is(err, errVisit) {
		s.Errorf("Visit: error %v, want that of visit", err)
	}
	if n := int(visits.Load()); n > len(ids)/2 {
		s.Errorf("%d of %d were visited although each visit failed", n, len(ids))
	}
}

func (s *suite) visitCancelled(visitor cas.Visitor) {
	_, ids := s.objects()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	err := visitor.Visit(ctx, ids, func(i int, o cas.Object) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		s.Errorf("Visit that was cancelled: error %v, want context.Canceled", err)
	}
	if err := visitor.Visit(ctx, ids, func(int, cas.Object) error { return nil }); !errors.Is(err, context.Canceled) {
		s.Errorf("Visit of the cancelled: error %v, want context.Canceled", err)
	}
}

// lister returns a test that runs f if the store is a cas.Lister.
func lister(f func(*suite, cas.Lister)) func(*suite) {
	return func(s *suite) {
		if l, ok := s.Store.(cas.Lister); ok {
			f(s, l)
		}
	}
}

// all returns the objects that a store lists, and checks that it lists none twice.
func (s *suite) all(l cas.Lister) map[cas.ID]int64 {
	s.Helper()
	all := make(map[cas.ID]int64)
	for info, err := range l.List(s.ctx) {
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		if _, twice := all[info.ID]; twice {
			s.Errorf("List gives %v twice", info.ID)
		}
		all[info.ID] = info.Size
	}
	return all
}

func (s *suite) list(lister cas.Lister) {
	if n := len(s.all(lister)); n != 0 {
		s.Errorf("List of an empty store gives %d objects", n)
	}
	objects, _ := s.objects()
	s.put(s, cas.Document, objects[0])
	s.put(s, cas.TreeKind, Random(3, 700<<10))
	want := map[cas.ID]int64{
		infoOf(cas.Document, objects[0]).ID:         int64(len(objects[0])),
		infoOf(cas.TreeKind, Random(3, 700<<10)).ID: 700 << 10,
	}
	for _, b := range objects {
		want[infoOf(cas.Blob, b).ID] = int64(len(b))
	}
	got := s.all(lister)
	for id, size := range want {
		if n, ok := got[id]; !ok || n != size {
			s.Errorf("List gives %v with size %d (%t), want %d", id, n, ok, size)
		}
	}
	if len(got) != len(want) {
		s.Errorf("List gives %d objects, want %d", len(got), len(want))
	}
	n := 0
	for range lister.List(s.ctx) {
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for _, err := range lister.List(ctx) {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("List of the cancelled: error %v, want context.Canceled", err)
		}
		break
	}
}

// deleter returns a test that runs f if the store is a cas.Deleter.
func deleter(f func(*suite, cas.Deleter)) func(*suite) {
	return func(s *suite) {
		if d, ok := s.Store.(cas.Deleter); ok {
			f(s, d)
		}
	}
}

func (s *suite) delete(deleter cas.Deleter) {
	objects, _ := s.objects()
	half := make([]cas.ID, 0, len(objects))
	gone := make(map[cas.ID]bool)
	for i, b := range objects {
		if i%2 == 0 {
			id := infoOf(cas.Blob, b).ID
			half = append(half, id)
			gone[id] = true
		}
	}
	half = append(half, infoOf(cas.Blob, []byte("never there")).ID)
	for range 2 {
		if err := deleter.Delete(s.ctx, half...); err != nil {
			s.Fatalf("Delete: %v", err)
		}
		s.wantMissing(s, half, half)
	}
	s.wantNone(half[:5]...)
	for _, b := range objects {
		if !gone[infoOf(cas.Blob, b).ID] {
			s.want(cas.Blob, b)
		}
	}
	s.put(s, cas.Blob, objects[0])
	s.want(cas.Blob, objects[0])
	if err := deleter.Delete(s.ctx); err != nil {
		s.Errorf("Delete of nothing: %v", err)
	}
}
