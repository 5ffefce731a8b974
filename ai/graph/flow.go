package graph

import "github.com/rye-build/rye/ai/value"

// flow reports unreachable nodes, and nodes from which no end can be reached.
func (r *reader) flow(config *value.Value) {
	start := config.Get("start")
	if start.IsNull() || start.Kind != value.Text {
		r.bad(at(start, config), "config.start", "expected the name of the first node")
		return
	}
	r.Start = start.Text
	if r.leads(r.Start, start.At, "config.start"); r.named[r.Start] == nil {
		return
	}
	reached := map[string]bool{r.Start: true}
	for next := []string{r.Start}; len(next) > 0; {
		n := r.named[next[0]]
		next = next[1:]
		for _, to := range r.ends(n) {
			if to != "" && !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	ends := map[string]bool{"": true}
	for more := true; more; {
		more = false
		for _, n := range r.Nodes {
			if ends[n.Name] {
				continue
			}
			for _, to := range r.ends(n) {
				if ends[to] {
					ends[n.Name], more = true, true
					break
				}
			}
		}
	}
	for _, n := range r.Nodes {
		switch field := "config.nodes." + clip(n.Name); {
		case !reached[n.Name]:
			r.bad(n.At, field, "unreachable node: nothing leads to it from %q", r.Start)
		case !ends[n.Name]:
			r.bad(n.At, field, "no way leads from this node to a return")
		}
	}
}
