package ask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/manifest/condition"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/globlist"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// An Answer is the decision about a call. A greater one is stricter.
type Answer uint8

// The answers.
const (
	Allow Answer = iota
	Ask
	Refuse
)

var answers = []string{"allow", "ask", "refuse"}

func (a Answer) String() string { return answers[a] }

// Risks are the risks of tools, the least first.
var Risks = []string{"read", "write", "infra", "money", "destructive"}

// Bounds of the section.
const (
	maxLines   = 1000
	maxExpires = 30 * 24 * time.Hour
	// Expires is how long a question may be answered if no line sets a time.
	Expires = time.Hour
)

// about lists the names that a condition's paths may begin with.
var about = []string{"params", "caller", "tenant", "flow"}

// Rules are the lines of a policy, in the order of its file.
type Rules []Line

// A Line is the answer to the calls that it matches.
type Line struct {
	Name     string
	Names    []string // globs; nil: all tools
	Risk     string   // the least; "": any
	When     string   // a condition; "": always
	Answer   Answer
	Separate bool
	Expires  time.Duration // 0: not set

	globs []glob.Glob
	when  *condition.Condition
}

// String returns the line in the words of the file: names: ["tool:acme/*"], risk: write, when: "params.x > 1", answer:
// ask.
func (l *Line) String() string {
	var parts []string
	if l.Names != nil {
		quoted := make([]string, len(l.Names))
		for i, n := range l.Names {
			quoted[i] = yamltree.Quote(n)
		}
		slices.Sort(quoted)
		parts = append(parts, "names: ["+strings.Join(quoted, ", ")+"]")
	}
	if l.Risk != "" {
		parts = append(parts, "risk: "+l.Risk)
	}
	if l.When != "" {
		parts = append(parts, "when: "+yamltree.Quote(l.When))
	}
	parts = append(parts, "answer: "+l.Answer.String())
	if l.Separate {
		parts = append(parts, "separate: true")
	}
	if l.Expires != 0 {
		parts = append(parts, "expires: "+yamltree.AgeText(l.Expires))
	}
	return strings.Join(parts, ", ")
}

// Read reads the section.
func Read(section *yamltree.Node) (Rules, error) {
	if len(section.Kids) > maxLines {
		return nil, section.Errorf("has more than %d lines", maxLines)
	}
	rules := make(Rules, 0, len(section.Kids))
	for _, n := range section.Kids {
		l, err := readLine(n)
		if err != nil {
			return nil, err
		}
		rules = append(rules, l)
	}
	return rules, nil
}

func readLine(n *yamltree.Node) (line Line, err error) {
	if err := n.CheckWord(n.Key, "the name of a line"); err != nil {
		return line, err
	}
	if err := n.Fields("names", "risk", "when", "answer", "separate", "expires"); err != nil {
		return line, err
	}
	line.Name = n.Key
	if f := n.Get("names"); f != nil {
		if line.Names, line.globs, err = globlist.Read(f); err != nil {
			return line, err
		}
	}
	if line.Risk, err = n.Choice("risk", Risks...); err != nil {
		return line, err
	}
	if line.When, err = n.TextOf("when"); err != nil {
		return line, err
	}
	if line.When != "" {
		if line.when, err = condition.Parse(line.When); err != nil {
			return line, n.Get("when").Errorf("in the condition, %s", err)
		}
		for _, root := range line.when.Roots() {
			if !slices.Contains(about, root) {
				return line, n.Get("when").Errorf(
					"a condition here is about params, caller, tenant and flow, not %q%s",
					yamltree.Clip(root), yamltree.Suggest(root, about))
			}
		}
	}
	answer, err := n.Choice("answer", answers...)
	if err != nil {
		return line, err
	}
	if line.Answer = Ask; answer != "" {
		line.Answer = Answer(slices.Index(answers, answer))
	}
	separate, err := n.Choice("separate", "true", "false")
	if err != nil {
		return line, err
	}
	line.Separate = separate == "true"
	if n.Get("expires") != nil {
		if line.Expires, err = n.Age("expires", maxExpires); err != nil {
			return line, err
		}
	}
	if line.Answer != Ask {
		for _, field := range []string{"separate", "expires"} {
			if f := n.Get(field); f != nil {
				return line, f.Errorf("%q goes with the answer ask", field)
			}
		}
	}
	return line, nil
}

// About returns the lines that can match calls of the item with this name. Only tools have such lines.
func (r Rules) About(name string) (lines Rules) {
	n, err := glob.ParseName(name)
	for i := range r {
		if l := &r[i]; err == nil && n.Kind == "tool" && (l.Names == nil || glob.MatchAny(l.globs, n)) {
			lines = append(lines, *l)
		}
	}
	return lines
}

// A Call is a call of a tool that needs a decision.
type Call struct {
	Tool     string         // its name, as in "tool:acme/fetch"
	Risk     string         // one of Risks; any other counts as the greatest
	Document map[string]any // the document of conditions
	Attended bool           // made by the user, not by a thread, a client or a server
}

func riskOf(word string) int {
	if i := slices.Index(Risks, word); i >= 0 {
		return i
	}
	return len(Risks) - 1
}

// matches reports whether a line that covers the tool is about the call.
func (l *Line) matches(c *Call) bool {
	if l.Risk != "" && riskOf(c.Risk) < riskOf(l.Risk) {
		return false
	}
	if l.when == nil {
		return true
	}
	holds := l.when.Ask(c.Document)
	return holds == condition.Yes || holds == condition.Unknown && l.Answer != Allow
}

// A Decision is the answer to a call.
type Decision struct {
	Answer   Answer
	Lines    []string // the deciding lines, each with its policy; nil if no line matched
	Separate bool     // the caller may not approve the call
	Expires  time.Duration
}

// Decide decides about a call by the rules of the root policy and of a project's.
func Decide(c *Call, root, project Rules) Decision {
	decision, matched := root.decide(c, "your policy")
	if !matched && !c.Attended && riskOf(c.Risk) >= riskOf("infra") {
		decision.Answer = Ask
	}
	switch p, matched := project.decide(c, "the project's policy"); {
	case !matched || p.Answer < decision.Answer:
	case p.Answer > decision.Answer:
		decision = p
	default:
		decision.Lines = append(decision.Lines, p.Lines...)
		decision.Separate = decision.Separate || p.Separate
		decision.Expires = sooner(decision.Expires, p.Expires)
	}
	if decision.Answer == Ask && decision.Expires == 0 {
		decision.Expires = Expires
	}
	return decision
}

// decide is Decide for one policy. matched is false if no line matches.
func (r Rules) decide(c *Call, whose string) (decision Decision, matched bool) {
	for _, l := range r.About(c.Tool) {
		if !l.matches(c) || l.Answer < decision.Answer {
			continue
		}
		if l.Answer > decision.Answer {
			decision = Decision{Answer: l.Answer}
		}
		matched = true
		decision.Lines = append(decision.Lines, fmt.Sprintf("%q of %s", l.Name, whose))
		decision.Separate = decision.Separate || l.Separate
		decision.Expires = sooner(decision.Expires, l.Expires)
	}
	return decision, matched
}

// sooner returns the shorter of two times; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
