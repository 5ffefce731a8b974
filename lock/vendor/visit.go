package vendor

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/rye-build/rye/cas"
)

// few is how many objects of one pack are looked up one by one.
const few = 4

// Visit implements cas.Visitor. If more than a few objects of a pack are wanted, it reads the pack once from
// beginning to end, without caching it. It passes objects that are missing or damaged there to Get, which returns the
// reason.
func (v *Vendor) Visit(ctx context.Context, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	var packs []*found
	var rest []int
	wanted := make(map[*found][]int, len(v.packs))
	for i, id := range ids {
		var last *found // the smallest pack has it, unless two branches have divided the same objects differently
		if _, large := v.large[id]; !large {
			for p := range v.packsOf(id.Digest) {
				last = p
			}
		}
		if last == nil {
			rest = append(rest, i)
			continue
		}
		if len(wanted[last]) == 0 {
			packs = append(packs, last)
		}
		wanted[last] = append(wanted[last], i)
	}
	packs = slices.DeleteFunc(packs, func(p *found) bool {
		if len(wanted[p]) > few {
			return false
		}
		rest = append(rest, wanted[p]...)
		return true
	})
	var mu sync.Mutex
	err := cas.Parallel(ctx, 0, len(packs), func(ctx context.Context, k int) error {
		left, err := v.visitPack(ctx, packs[k].name, ids, wanted[packs[k]], visit)
		mu.Lock()
		defer mu.Unlock()
		rest = append(rest, left...)
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(rest)
	return cas.Parallel(ctx, 0, len(rest), func(ctx context.Context, k int) error {
		o, err := v.Get(ctx, ids[rest[k]])
		if err != nil {
			return err
		}
		defer o.Close()
		return visit(rest[k], o)
	})
}

// visitPack visits the wanted objects that a valid pack has, and returns the others.
func (v *Vendor) visitPack(ctx context.Context, name string, ids []cas.ID, wanted []int,
	visit func(i int, o cas.Object) error) (left []int, err error) {
	r, info, err := v.files.open(name)
	if err != nil {
		return wanted, nil
	}
	defer r.Close()
	pack, object := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer buffers.Put(pack)
	defer buffers.Put(object)
	if *pack, err = readPack(name, r, info, *pack); err != nil {
		return wanted, nil
	}
	at := make(map[cas.ID]int, len(wanted))
	for _, i := range wanted {
		if _, twice := at[ids[i]]; twice {
			left = append(left, i)
			continue
		}
		at[ids[i]] = i
	}
	there := make([]line, 0, len(at))
	for l, err := range lines(name, *pack) {
		if err != nil {
			return wanted, nil
		}
		if _, is := at[l.id]; is {
			there = append(there, l)
		}
	}
	for k := range there {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l := &there[k]
		i, still := at[l.id]
		if !still { // a duplicate line
			continue
		}
		if *object, err = l.verify(name, *object); err != nil {
			continue
		}
		delete(at, l.id)
		if err := visit(i, cas.Object{Info: cas.Info{ID: l.id, Size: l.size},
			ReadCloser: io.NopCloser(bytes.NewReader(*object))}); err != nil {
			return nil, err
		}
	}
	for _, i := range at {
		left = append(left, i)
	}
	return left, nil
}
