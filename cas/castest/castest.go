// Package castest is the conformance suite of stores: it tests the promises of cas.Store and of the optional
// interfaces. An implementation's own test is mostly
//
//	func TestStore(t *testing.T) {
//		castest.Store(t, func(t *testing.T) cas.Store { … })
//	}
//
// The suite finds Batcher, Visitor, Lister and Deleter by assertion, and tests them if the store has them. The
// store's own package tests everything else, such as crashes.
//
// How a test goes through here: Store runs each test as a subtest with a new store (open). The tests are methods of
// suite. They write objects (put, putBytes, putAll) with the bytes of content.go, and check the store (want,
// wantNone, wantMissing).
package castest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
)

// Store runs the suite. It calls open for each test. open returns an empty store, and removes it when t ends.
func Store(t *testing.T, open func(t *testing.T) cas.Store) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"RoundTrip", (*suite).roundTrip},
		{"OddReaders", (*suite).oddReaders},
		{"Kinds", (*suite).kinds},
		{"Absent", (*suite).absent},
		{"Missing", (*suite).missing},
		{"MissingMany", (*suite).missingMany},
		{"Idempotent", (*suite).idempotent},
		{"FailingReader", (*suite).failingReader},
		{"Cancelled", (*suite).cancelled},
		{"CancelledPut", (*suite).cancelledPut},
		{"ClosedEarly", (*suite).closedEarly},
		{"Together", (*suite).together},
		{"Batch", batcher((*suite).batch)},
		{"BatchRoundTrip", batcher((*suite).batchRoundTrip)},
		{"BatchDropped", batcher((*suite).batchDropped)},
		{"BatchFailingReader", batcher((*suite).batchFailingReader)},
		{"BatchCancelled", batcher((*suite).batchCancelled)},
		{"BatchTogether", batcher((*suite).batchTogether)},
		{"BatchesTogether", batcher((*suite).batchesTogether)},
		{"Visit", visitor((*suite).visit)},
		{"VisitMissing", visitor((*suite).visitMissing)},
		{"VisitError", visitor((*suite).visitError)},
		{"VisitCancelled", visitor((*suite).visitCancelled)},
		{"List", lister((*suite).list)},
		{"Delete", deleter((*suite).delete)},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(&suite{T: t, Store: open(t), ctx: t.Context()})
		})
	}
}

// A suite is one test with its store.
type suite struct {
	*testing.T
	cas.Store
	ctx context.Context
}

// The methods below report with Errorf, so that goroutines may use them.

// put puts b and checks the result.
func (s *suite) put(p cas.Putter, kind cas.Kind, b []byte) cas.Info {
	s.Helper()
	got, err := p.Put(s.ctx, kind, bytes.NewReader(b))
	if want := infoOf(kind, b); err != nil || got != want {
		s.Errorf("Put of %s = %v, %v; want %v", name(b), got, err, want)
	}
	return infoOf(kind, b)
}

// want checks that the store returns b.
func (s *suite) want(kind cas.Kind, b []byte) {
	s.Helper()
	info := infoOf(kind, b)
	o, err := s.Get(s.ctx, info.ID)
	if err != nil {
		s.Errorf("Get of %s: %v", name(b), err)
		return
	}
	s.wantObject(o, info, b)
	if err := o.Close(); err != nil {
		s.Errorf("Close of %s: %v", name(b), err)
	}
}

func (s *suite) wantObject(object cas.Object, info cas.Info, data []byte) {
	s.Helper()
	if object.Info != info {
		s.Errorf("the object of %s is %v, want %v", name(data), object.Info, info)
	}
	var all bytes.Buffer
	all.Grow(len(data) + bytes.MinRead)
	_, err := all.ReadFrom(object)
	got := all.Bytes()
	if err != nil {
		s.Errorf("reading %s: %v", name(data), err)
	}
	if !bytes.Equal(got, data) {
		s.Errorf("reading %s returned %d other bytes", name(data), len(got))
	}
	if n, err := object.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		s.Errorf("%s: Read after the end = %d, %v", name(data), n, err)
	}
}

// wantNone checks that the store shows none of ids in any way.
func (s *suite) wantNone(ids ...cas.ID) {
	s.Helper()
	for _, id := range ids {
		if o, err := s.Get(s.ctx, id); !errors.Is(err, fs.ErrNotExist) {
			s.Errorf("Get of an object that must not exist: error %v, want fs.ErrNotExist", err)
			if err == nil {
				o.Close()
			}
		}
	}
	s.wantMissing(s.Store, ids, ids)
	if l, ok := s.Store.(cas.Lister); ok {
		for info, err := range l.List(s.ctx) {
			if err != nil {
				s.Errorf("List: %v", err)
			}
			for _, id := range ids {
				if info.ID == id {
					s.Errorf("List returned %v, which must not exist", id)
				}
			}
		}
	}
}

// wantMissing checks the result of Missing for ids, with its order.
func (s *suite) wantMissing(m cas.Misser, ids, want []cas.ID) {
	s.Helper()
	got, err := m.Missing(s.ctx, ids)
	if err != nil {
		s.Errorf("Missing: %v", err)
	}
	if !slices.Equal(got, want) {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		s.Errorf("Missing of %d ids returned %d, want %d; number %d is the first to differ", len(ids), len(got),
			len(want), at)
	}
}

func infoOf(kind cas.Kind, b []byte) cas.Info {
	return cas.Info{ID: cas.ID{Kind: kind, Digest: cas.Sum(b)}, Size: int64(len(b))}
}

// name identifies an object in a message.
func name(b []byte) string {
	return fmt.Sprintf("%d bytes %.20q", len(b), b)
}
