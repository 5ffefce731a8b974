package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A Step makes files from files with a tool.
type Step struct {
	Name    string
	Tool    model.Ref
	Inputs  []Glob   // of project files and of other steps' outputs
	Outputs []string // files and directories that it makes, sorted
	Params  []Param  // in the order of the file
	Needs   []string // the steps whose outputs are among its inputs, sorted
}

// A Param is a parameter of a step. The tool's schema decides how its text is parsed.
type Param struct{ Name, Text string }

// Takes reports whether a file is an input of a step.
func (s *Step) Takes(file string) bool { return matchAny(s.Inputs, file) }

// Makes reports whether a path is an output of the step, or below one.
func (s *Step) Makes(file string) bool {
	return slices.ContainsFunc(s.Outputs, func(out string) bool { return within(file, out) })
}

func within(file, dir string) bool { return file == dir || strings.HasPrefix(file, dir+"/") }

// Step returns the step of a name, or nil.
func (r *Recipe) Step(name string) *Step {
	for i := range r.Build {
		if r.Build[i].Name == name {
			return &r.Build[i]
		}
	}
	return nil
}

// Makes reports whether a path is an output of a step, or below one.
func (r *Recipe) Makes(file string) bool {
	return slices.ContainsFunc(r.Build, func(s Step) bool { return s.Makes(file) })
}

func (r *Recipe) readBuild(root *yamltree.Node) error {
	list := root.Get("build")
	if list == nil {
		return nil
	}
	if list.Shape != yamltree.Mapping {
		return list.Errorf("expected entries under %q", list.Key)
	}
	if len(list.Kids) > maxEntries {
		return list.Errorf("%q has more than %d entries", list.Key, maxEntries)
	}
	for _, n := range list.Kids {
		s, err := readStep(n)
		if err != nil {
			return err
		}
		r.Build = append(r.Build, s)
	}
	if err := r.apart(list.Kids); err != nil {
		return err
	}
	return r.order(list.Kids)
}

func readStep(n *yamltree.Node) (step Step, err error) {
	step.Name = n.Key
	if err := n.CheckWord(n.Key, "the name of a step"); err != nil {
		return step, err
	}
	if n.Shape != yamltree.Mapping {
		return step, n.Errorf("expected tool, inputs, outputs and params in %q", n.Key)
	}
	if err := n.Fields("tool", "inputs", "outputs", "params"); err != nil {
		return step, err
	}
	tool, err := n.Need("tool")
	if err != nil {
		return step, err
	}
	if step.Tool, err = model.ParseRef(tool); err == nil && step.Tool.Kind != "tool" {
		err = fmt.Errorf("%q is not a tool", step.Tool)
	}
	if err != nil {
		return step, n.Get("tool").Errorf("%v", err)
	}
	err = eachText(n, "inputs", func(n *yamltree.Node, text string) error {
		g, err := ParseGlob(text)
		if first, _, _ := strings.Cut(strings.TrimPrefix(text, ".ai/"), "/"); err == nil && inAI(text) &&
			Never(first) {
			err = fmt.Errorf("%+q can't be an input: it never belongs to a bundle", ".ai/"+first)
		}
		if err != nil {
			return n.Errorf("%v", err)
		}
		step.Inputs = append(step.Inputs, g)
		return nil
	})
	if err != nil {
		return step, err
	}
	err = eachText(n, "outputs", func(n *yamltree.Node, text string) error {
		if err := checkOutput(text); err != nil {
			return n.Errorf("%v", err)
		}
		step.Outputs = append(step.Outputs, text)
		return nil
	})
	if err == nil && len(step.Outputs) == 0 {
		err = n.Errorf("step %q has no \"outputs\"", step.Name)
	}
	if err != nil {
		return step, err
	}
	slices.Sort(step.Outputs)
	return step, step.readParams(n)
}

func (s *Step) readParams(n *yamltree.Node) error {
	return eachEntry(n, "params", "a text", "level: \"3\"", func(n *yamltree.Node) error {
		s.Params = append(s.Params, Param{n.Key, n.Text})
		return nil
	})
}

// checkOutput returns the reason why a step can't make a path, or nil.
func checkOutput(path string) error {
	if err := portable.Check(path); err != nil {
		return err
	}
	switch first, _, _ := strings.Cut(portable.Fold(path), "/"); first {
	case ".ai", File, "rye.yaml", "rye.lock":
		return fmt.Errorf("%+q can't be an output: rye's own files are written or signed by people",
			fault.Clip(path, 100))
	}
	return nil
}

// apart refuses outputs that overlap.
func (r *Recipe) apart(nodes []*yamltree.Node) error {
	type output struct{ folded, step string }
	var all []output
	for i := range r.Build {
		for _, n := range nodes[i].Get("outputs").Kids {
			all = append(all, output{portable.Fold(n.Text), r.Build[i].Name})
			for _, o := range all[:len(all)-1] {
				if mine := all[len(all)-1].folded; within(mine, o.folded) || within(o.folded, mine) {
					return n.Errorf("%+q overlaps an output of step %q", fault.Clip(n.Text, 100), o.step)
				}
			}
		}
	}
	return nil
}

// order finds the steps that each step needs, and refuses circles.
func (r *Recipe) order(nodes []*yamltree.Node) error {
	for i := range r.Build {
		step := &r.Build[i]
		for j, g := range step.Inputs {
			for _, other := range r.Build {
				takes := func(out string) bool { return g.Match(out) || g.Below(out) }
				switch {
				case !slices.ContainsFunc(other.Outputs, takes):
				case other.Name == step.Name:
					return nodes[i].Get("inputs").Kids[j].Errorf("%+q matches an output of its own step %q",
						fault.Clip(g.String(), 100), step.Name)
				case !slices.Contains(step.Needs, other.Name):
					step.Needs = append(step.Needs, other.Name)
				}
			}
		}
		slices.Sort(step.Needs)
	}
	// Remove the steps that need no other step, until none can be removed: the rest are in a circle or need one.
	done := map[string]bool{}
	for len(done) < len(r.Build) {
		before := len(done)
		for i := range r.Build {
			if s := &r.Build[i]; !slices.ContainsFunc(s.Needs, func(n string) bool { return !done[n] }) {
				done[s.Name] = true
			}
		}
		if len(done) == before {
			return r.circle(nodes, done)
		}
	}
	return nil
}

// circle returns an error that names the steps of one circle.
func (r *Recipe) circle(nodes []*yamltree.Node, done map[string]bool) error {
	var way []string
	next := r.Build[slices.IndexFunc(r.Build, func(s Step) bool { return !done[s.Name] })].Name
	for !slices.Contains(way, next) {
		way = append(way, next)
		needs := r.Step(next).Needs
		next = needs[slices.IndexFunc(needs, func(n string) bool { return !done[n] })]
	}
	way = append(way[slices.Index(way, next):], next)
	i := slices.IndexFunc(r.Build, func(s Step) bool { return s.Name == next })
	return nodes[i].Errorf("circular steps: %s", strings.Join(way, " needs "))
}
