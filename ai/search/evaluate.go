package search

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/search/query"
)

// The usual constants of BM25.
const (
	bm25K = 1.2
	bm25B = 0.75
)

// A view is all segments at one moment, with the records that are still valid.
type view struct {
	segs    []*segment
	first   []int // the number of each segment's first document
	alive   []bool
	live    int
	average [][][]float64 // the average lengths of fields: by segment, layout and slot
	fields  map[string]*length
}

// A length sums the lengths of a field.
type length struct{ words, docs float64 }

func newView(segs []*segment, entries []entry) (*view, error) {
	view := &view{segs: segs, fields: make(map[string]*length)}
	n := 0
	for _, s := range segs {
		view.first = append(view.first, n)
		n += len(s.docs)
	}
	view.alive = make([]bool, n)
	for i := range entries {
		e := &entries[i]
		if e.count == 0 {
			continue
		}
		if e.seg >= len(segs) || e.first+e.count > len(segs[e.seg].docs) {
			return nil, errDamaged
		}
		for d := range e.count {
			view.alive[view.first[e.seg]+e.first+d] = true
		}
		view.live += e.count
	}
	view.measure()
	return view, nil
}

// measure computes the average lengths of fields. It sums whole numbers, so their order doesn't matter.
func (v *view) measure() {
	sums := make([][][]*length, len(v.segs))
	for i, segment := range v.segs {
		sums[i] = make([][]*length, len(segment.layouts))
		for j := range segment.layouts {
			for _, name := range segment.layouts[j].names {
				l := v.fields[name]
				if l == nil {
					l = new(length)
					v.fields[name] = l
				}
				sums[i][j] = append(sums[i][j], l)
			}
		}
		for j := range segment.docs {
			if !v.alive[v.first[i]+j] {
				continue
			}
			p := &segment.docs[j]
			for slot, l := range sums[i][p.layout] {
				if n := p.lengths[slot]; n > 0 {
					l.words += float64(n)
					l.docs++
				}
			}
		}
	}
	for i := range sums {
		v.average = append(v.average, make([][]float64, len(sums[i])))
		for j := range sums[i] {
			for _, l := range sums[i][j] {
				v.average[i][j] = append(v.average[i][j], l.words/max(l.docs, 1))
			}
		}
	}
}

// matches are the documents that match a part of a query, with their scores.
type matches struct {
	has   []bool
	score []float64
}

func (v *view) none() *matches {
	return &matches{make([]bool, len(v.alive)), make([]float64, len(v.alive))}
}

// evaluate returns the matches of a query or a part of it.
func (v *view) evaluate(ctx context.Context, n *query.Node) (*matches, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if n == nil {
		return &matches{slices.Clone(v.alive), make([]float64, len(v.alive))}, nil
	}
	if n.Op < query.And {
		return v.leaf(ctx, n)
	}
	matches, err := v.evaluate(ctx, n.Kids[0])
	if err != nil {
		return nil, err
	}
	if n.Op == query.Not {
		for d, alive := range v.alive {
			matches.has[d], matches.score[d] = alive && !matches.has[d], 0
		}
		return matches, nil
	}
	for _, k := range n.Kids[1:] {
		o, err := v.evaluate(ctx, k)
		if err != nil {
			return nil, err
		}
		for d := range matches.has {
			if n.Op == query.And {
				matches.has[d] = matches.has[d] && o.has[d]
			} else {
				matches.has[d] = matches.has[d] || o.has[d]
			}
			matches.score[d] += o.score[d]
		}
	}
	for d, has := range matches.has {
		if !has {
			matches.score[d] = 0
		}
	}
	return matches, nil
}

// leaf returns the documents of a word, a pattern, a misspelt word or a phrase.
func (v *view) leaf(ctx context.Context, n *query.Node) (*matches, error) {
	matches := v.none()
	for i, s := range v.segs {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		var err error
		switch n.Op {
		case query.Word:
			var p postings
			if p, err = s.find(n.Words[0]); err == nil {
				err = v.count(matches, i, &p, n.Field, 1)
			}
		case query.Phrase:
			err = v.phrase(matches, i, n)
		default:
			err = v.likely(matches, i, n)
		}
		if err != nil {
			return nil, err
		}
	}
	found := 0
	for _, has := range matches.has {
		if has {
			found++
		}
	}
	rarity := math.Log(1 + (float64(v.live-found)+0.5)/(float64(found)+0.5))
	for d, tf := range matches.score {
		if tf > 0 {
			matches.score[d] = rarity * (tf * (bm25K + 1) / (tf + bm25K))
		}
	}
	return matches, nil
}

// likely counts all terms that match the pattern or the misspelt word.
func (v *view) likely(matches *matches, seg int, n *query.Node) error {
	segment, look := v.segs[seg], n.Looks()
	prefix := ""
	if n.Op == query.Pattern {
		prefix, _, _ = strings.Cut(n.Words[0], "*")
		prefix, _, _ = strings.Cut(prefix, "?")
	}
	var failed error
	err := segment.terms(prefix, func(term []byte, at, size int) bool {
		factor := look(term)
		if factor == 0 {
			return true
		}
		p, err := segment.postings(at, size)
		if err == nil {
			err = v.count(matches, seg, &p, n.Field, factor)
		}
		failed = err
		return err == nil
	})
	if err == nil {
		err = failed
	}
	return err
}

// count adds a term's contribution to the scores of its documents.
func (v *view) count(m *matches, seg int, p *postings, field string, factor float64) error {
	for p.next() {
		for _, f := range p.spans {
			if err := v.tally(m, seg, p.doc, f.slot, field, factor*float64(f.to-f.from)); err != nil {
				return err
			}
		}
	}
	if p.bad {
		return errDamaged
	}
	return nil
}

// tally adds n occurrences in one field of one document; they count less in a longer field.
func (v *view) tally(matches *matches, seg, doc, slot int, field string, n float64) error {
	s := v.segs[seg]
	if doc >= len(s.docs) || slot >= len(s.docs[doc].lengths) {
		return errDamaged
	}
	d, p := v.first[seg]+doc, &s.docs[doc]
	l := &s.layouts[p.layout]
	if !v.alive[d] || field != "" && field != l.names[slot] {
		return nil
	}
	relative := float64(p.lengths[slot]) / max(v.average[seg][p.layout][slot], 1)
	// The conversion prevents fused operations, which round differently on some machines.
	matches.score[d] += float64(l.weights[slot] * n / (1 - bm25B + float64(bm25B*relative)))
	matches.has[d] = true
	return nil
}

// phrase returns the documents that have all words in one field, in a row or near each other.
func (v *view) phrase(matches *matches, seg int, n *query.Node) error {
	all := make([]postings, len(n.Words))
	for i, w := range n.Words {
		var err error
		if all[i], err = v.segs[seg].find(w); err != nil {
			return err
		}
		if !all[i].next() {
			return damagedIf(all[i].bad)
		}
	}
	positions := make([][]uint32, len(all))
	for {
		last := 0
		for i := range all {
			last = max(last, all[i].doc)
		}
		together := true
		for i := range all {
			for all[i].doc < last {
				if !all[i].next() {
					return damagedIf(all[i].bad)
				}
			}
			together = together && all[i].doc == last
		}
		if !together {
			continue
		}
		for _, f := range all[0].spans {
			for i := range all {
				positions[i] = all[i].in(f.slot)
			}
			found := 0
			n.Occurrences(positions, func(_, _ uint32) { found++ })
			if found > 0 {
				if err := v.tally(matches, seg, last, f.slot, n.Field, float64(found)); err != nil {
					return err
				}
			}
		}
		if !all[0].next() {
			return damagedIf(all[0].bad)
		}
	}
}

func damagedIf(bad bool) error {
	if bad {
		return errDamaged
	}
	return nil
}
