package resolve

import "slices"

// maxProblems is how many problems are reported at once.
const maxProblems = 20

// A way is a requirement in force, with the bundle that has it.
type way struct {
	from int
	edge *edge
}

// parents returns, for each needed bundle, the requirement in force that is nearest to the project.
func (s *solver) parents(sel selection) []way {
	first := make([]way, len(s.nodes))
	s.again(sel, func(from int, e *edge) {
		if first[e.to].edge == nil {
			first[e.to] = way{from, e}
		}
	})
	return first
}

func (s *solver) version(sel selection, bundle int) string {
	if at := sel.at(bundle); at >= 0 {
		return s.nodes[bundle].versions[at].text
	}
	return ""
}

func (s *solver) step(sel selection, e *edge) Step {
	return Step{s.nodes[e.to].id, s.version(sel, e.to), e.rng.String()}
}

// path returns the way from the project to a requirement.
func (s *solver) path(sel selection, first []way, w way) Path {
	p := Path{s.step(sel, w.edge)}
	for w.from >= 0 {
		w = first[w.from]
		p = append(p, s.step(sel, w.edge))
	}
	slices.Reverse(p)
	return p
}

// check returns the problems of a selection: one for each bundle, the nearest to the project first.
func (s *solver) check(sel selection) ([]problem, error) {
	var wrong []way
	told := map[int]int{} // → index of wrong
	if err := s.walk(sel, func(from int, edge *edge) {
		at := sel.at(edge.to)
		if at >= 0 && (edge.floor == at || edge.rng.Contains(s.nodes[edge.to].versions[at].text)) {
			return
		}
		i, again := told[edge.to]
		switch {
		case !again:
			told[edge.to] = len(wrong)
			wrong = append(wrong, way{from, edge})
		case edge.floor < 0 && wrong[i].edge.floor >= 0:
			wrong[i] = way{from, edge}
		}
	}); err != nil {
		return nil, err
	}
	if len(wrong) == 0 {
		return s.cycles(sel), nil
	}
	// Problems that follow from a missing version would only distract from it.
	absent := slices.DeleteFunc(slices.Clone(wrong), func(w way) bool { return w.edge.floor >= 0 })
	if len(absent) > 0 {
		wrong = absent
	}
	first := s.parents(sel)
	var problems []problem
	for _, way := range wrong[:min(len(wrong), maxProblems)] {
		path := s.path(sel, first, way)
		if way.edge.floor < 0 {
			e := s.noVersion(way, path)
			if sel.at(way.edge.to) >= 0 {
				if holder := s.holder(sel, way.edge.to); holder.edge != nil {
					e.Version, e.Holds = s.version(sel, way.edge.to), s.path(sel, first, holder)
				}
			}
			problems = append(problems, e)
			continue
		}
		e := &ConflictError{ID: path[len(path)-1].ID, Version: s.version(sel, way.edge.to), Against: path}
		if holder := s.holder(sel, way.edge.to); holder.edge != nil {
			e.Holds = s.path(sel, first, holder)
		}
		problems = append(problems, e)
	}
	return problems, nil
}

// holder returns the nearest requirement in force whose floor is the selected version, or else one that contains it.
func (s *solver) holder(sel selection, bundle int) (found way) {
	at := sel.at(bundle)
	exact := false
	s.again(sel, func(from int, e *edge) {
		if e.to != bundle || exact {
			return
		}
		exact = s.floorOf(e) == at
		if exact || found.edge == nil && e.rng.Contains(s.nodes[bundle].versions[at].text) {
			found = way{from, e}
		}
	})
	return found
}

func (s *solver) noVersion(w way, p Path) *NoVersionError {
	n := &s.nodes[w.edge.to]
	e := &NoVersionError{Path: p, Err: n.absent}
	for _, v := range slices.Backward(n.versions) {
		if len(e.Newest) == 3 {
			break
		}
		e.Newest = append(e.Newest, v.text)
	}
	return e
}

// cycles returns a circle of bundles, if there is one: the first found from the project in the order of ids.
func (s *solver) cycles(sel selection) []problem {
	const open, done = 1, 2
	state := make([]uint8, len(s.nodes))
	var path []*edge // from the project to the current bundle
	var follow func(edges []edge) *CycleError
	follow = func(edges []edge) *CycleError {
		for i := range edges {
			link := &edges[i]
			path = append(path, link)
			switch state[link.to] {
			case 0:
				state[link.to] = open
				next, _ := s.needs(link.to, sel[link.to]) // walked before, so it is built
				if c := follow(next); c != nil {
					return c
				}
				state[link.to] = done
			case open:
				c := &CycleError{}
				for _, e := range path[slices.IndexFunc(path, func(o *edge) bool { return o.to == link.to }):] {
					c.Path = append(c.Path, s.step(sel, e))
				}
				c.Path[0] = c.Path[len(c.Path)-1] // it begins where it ends
				return c
			}
			path = path[:len(path)-1]
		}
		return nil
	}
	if c := follow(s.roots); c != nil {
		return []problem{c}
	}
	return nil
}
