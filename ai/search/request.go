package search

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/search/query"
)

// DefaultLimit is the number of results of a Request without a limit.
const DefaultLimit = 10

// A Request is a query and its scope.
type Request struct {
	Query *query.Query // nil finds everything
	Scope query.Scope
	// Space limits the search to a label or its first part, such as "system" of "system:rye/std"; "" means
	// everywhere.
	Space string
	// Last is the label of a space whose results come after all others; "" ranks all spaces together.
	Last string
	// Limit is how many results to return after skipping Offset; 0 means DefaultLimit.
	Limit, Offset int
}

// A Response is the results, the best first.
type Response struct {
	Results []Result
	Total   int      // before Limit and Offset
	Unknown []string // fields of the query that no record has
	Stats   Stats
}

// A Result is a matching record. Equal scores are sorted by rank, the highest first, then by kind, id, space and
// path.
type Result struct {
	Record
	Score      float64 // to six decimals
	Highlights []Highlight
}

// Search answers a request from the current content of the files.
func (x *Index) Search(ctx context.Context, c Catalog, r Request) (*Response, error) {
	var out *Response
	st, err := x.run(ctx, c, func(v *view) (err error) {
		out, err = v.search(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Stats = st
	return out, nil
}

// A found is a matching document before its record is read.
type found struct {
	seg, doc int
	p        *doc
	score    float64
	last     bool // of the space Request.Last
}

func (f *found) compare(o *found) int {
	if f.last != o.last {
		if f.last {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(o.score, f.score), cmp.Compare(o.p.rank, f.p.rank), strings.Compare(f.p.kind, o.p.kind),
		strings.Compare(f.p.id, o.p.id), strings.Compare(f.p.space, o.p.space), strings.Compare(f.p.path, o.p.path),
		cmp.Compare(f.doc, o.doc))
}

// best is a heap whose first element is the worst.
type best []found

func (b best) Len() int           { return len(b) }
func (b best) Less(i, j int) bool { return b[i].compare(&b[j]) > 0 }
func (b best) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *best) Push(f any)        { *b = append(*b, f.(found)) }
func (b *best) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// A Highlight is the places of a query's words in a field.
type Highlight struct {
	Field  string
	Ranges []query.Range // sorted; they don't overlap
}

// highlight finds the words of a query in a record.
func highlight(r *Record, q *query.Query) (out []Highlight) {
	if q == nil {
		return nil
	}
	for i := range r.Fields {
		if places := q.Places(r.Fields[i].Name, r.Fields[i].Text); len(places) > 0 {
			out = append(out, Highlight{r.Fields[i].Name, places})
		}
	}
	return out
}

// in reports whether the request covers a space.
func (r *Request) in(space string) bool {
	rest, ok := strings.CutPrefix(space, r.Space)
	return ok && (r.Space == "" || rest == "" || rest[0] == ':')
}

// window returns the range of requested results.
func (r *Request) window() (from, to int) {
	limit := r.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	from = max(r.Offset, 0)
	if to = from + limit; to < from {
		to = math.MaxInt
	}
	return from, to
}

func (v *view) search(ctx context.Context, request Request) (*Response, error) {
	var root *query.Node
	if request.Query != nil {
		root = request.Query.Root
	}
	matches, err := v.evaluate(ctx, root)
	if err != nil {
		return nil, err
	}
	out := &Response{Unknown: v.unknown(root)}
	from, to := request.window()
	var top best
	for i, s := range v.segs {
		for j := range s.docs {
			d, p := v.first[i]+j, &s.docs[j]
			if !matches.has[d] || !request.Scope.Covers(p.kind, p.id) || !request.in(p.space) {
				continue
			}
			out.Total++
			f := found{i, j, p, math.Round(matches.score[d]*1e6) / 1e6, request.Last != "" && p.space == request.Last}
			if len(top) < to {
				heap.Push(&top, f)
			} else if f.compare(&top[0]) < 0 {
				top[0] = f
				heap.Fix(&top, 0)
			}
		}
	}
	slices.SortFunc(top, func(a, b found) int { return a.compare(&b) })
	for _, f := range top[min(from, len(top)):] {
		rec, err := v.segs[f.seg].record(f.p)
		if err != nil {
			return nil, err
		}
		out.Results = append(out.Results, Result{Record: *rec, Score: f.score,
			Highlights: highlight(rec, request.Query)})
	}
	return out, nil
}

// unknown returns the fields of a query that no record has.
func (v *view) unknown(root *query.Node) (names []string) {
	root.Leaves(false, func(n *query.Node, _ bool) {
		if n.Field != "" && v.fields[n.Field] == nil && !slices.Contains(names, n.Field) {
			names = append(names, n.Field)
		}
	})
	return names
}
