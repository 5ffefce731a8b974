package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas"
)

// refs follows every ref. It reports each missing object at the first place that refers to it, and adds to each lost
// object the names of its referrers.
func (f *fsck) refs(ctx context.Context, refs []Ref, damaged []error) error {
	for _, e := range damaged {
		if r, ok := errors.AsType[*RefError](e); ok {
			f.add(Problem{Ref: r.Name, Text: r.Error()})
		}
	}
	follower := follower{f: f, from: make(map[cas.ID][]string), below: make(map[cas.ID][]cas.ID)}
	for _, r := range refs {
		// A ref that changed during the fsck may have led to objects that gc has rightly removed.
		if now, err := f.s.Ref(r.Name); err != nil || now != r.ID {
			continue
		}
		if _, err := follower.follow(ctx, r.Name, r.ID, 0); err != nil {
			return err
		}
	}
	for i := range f.problems {
		f.problems[i].From = append(f.problems[i].From, follower.from[f.problems[i].ID]...)
	}
	for id, where := range follower.from {
		if !f.lost[id] {
			f.add(Problem{ID: id, Text: "missing", From: where, Lost: true})
		}
	}
	return nil
}

func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// A follower walks everything that refs reach. It visits a tree once; later references to it reuse the findings.
type follower struct {
	f     *fsck
	from  map[cas.ID][]string // lost and missing objects, and their referrers
	below map[cas.ID][]cas.ID // for each tree that was visited, the lost and missing objects below it
}

// mostNamed is how many referrers of an object, or damaged objects of a tree, are reported.
const mostNamed = 20

const deepest = 1000 // directories below each other; a path has at most 1,000 bytes

func (w *follower) bad(id cas.ID, where string) {
	if len(w.from[id]) < mostNamed {
		w.from[id] = append(w.from[id], where)
	}
}

// follow visits the objects that id reaches and returns the lost and missing ones. where names the path to id.
func (w *follower) follow(ctx context.Context, where string, id cas.ID, depth int) ([]cas.ID, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if old, ok := w.below[id]; ok {
		for _, b := range old {
			w.bad(b, where)
		}
		return old, nil
	}
	here, err := w.present(ctx, id)
	if err != nil {
		return nil, err
	}
	if !here {
		w.bad(id, where)
		return []cas.ID{id}, nil
	}
	if id.Kind != cas.TreeKind {
		return nil, nil
	}
	w.below[id] = nil
	data, err := w.f.s.readAll(ctx, w.f.snap, id)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		w.f.add(Problem{ID: id, Text: err.Error(), Lost: true})
		w.bad(id, where)
		w.below[id] = []cas.ID{id}
		return w.below[id], nil
	}
	var found []cas.ID
	var stop error
	err = cas.DecodeTree(data, func(e cas.Entry) error {
		if depth == deepest {
			return fmt.Errorf("more than %d directories below each other", deepest)
		}
		var ids []cas.ID
		ids, stop = w.follow(ctx, where+"/"+e.Name, e.ID(), depth+1)
		found = append(found, ids...)
		return stop
	})
	if stop != nil {
		return nil, stop
	}
	if err != nil {
		w.f.add(Problem{ID: id, Text: fmt.Sprintf("not a tree: %v", err), From: []string{where}})
	}
	found = found[:min(len(found), mostNamed)]
	w.below[id] = found
	return found, nil
}

// present reports whether an object can be read.
func (w *follower) present(ctx context.Context, id cas.ID) (bool, error) {
	if w.f.lost[id] {
		return false, nil
	}
	if inAny(w.f.snap.packs, id.Kind, &id.Digest) {
		return true, nil
	}
	o, err := w.f.s.open(ctx, w.f.snap, id) // it may be in a pack without an index
	if errors.Is(err, fs.ErrNotExist) || isDamage(err) {
		return false, nil
	}
	if err == nil {
		err = o.Close()
	}
	return true, err
}
