package plugin

import (
	"fmt"
	"slices"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// An Effect is what a problem does to a plugin.
type Effect string

// The effects, the gravest first.
const (
	Rejects     Effect = "rejected"       // the whole plugin
	NoServers   Effect = "no servers"     // all of mcp.json
	NoSkills    Effect = "no skills"      // all of skills/
	SkipsServer Effect = "server skipped" // this one
	SkipsSkill  Effect = "skill skipped"  // this one
	SkipsTool   Effect = "tool skipped"   // one of a server
	Denied      Effect = "path denied"    // this file
	Ignored     Effect = "ignored"        // this field
	Unsupported Effect = "unsupported"    // valid, but rye doesn't use it
	Left        Effect = "left out"       // a file that no tree has
	Advice      Effect = "advice"         // what the specification recommends
)

// A Problem is a rule that a plugin breaks, and the effect of that.
type Problem struct {
	Path    string    `json:"path"` // in the plugin
	At      value.Pos `json:"-"`
	Part    string    `json:"part"`    // of a part of the plugin: "skills/NAME" or "servers/NAME"; else empty
	Section string    `json:"section"` // of the specification, such as "5.2"; empty for a rule of rye
	Message string    `json:"message"`
	Effect  Effect    `json:"effect"`
}

// Invalid reports whether the plugin breaks a rule, rather than that a part isn't used.
func (p *Problem) Invalid() bool {
	return !slices.Contains([]Effect{Unsupported, Left, Advice}, p.Effect)
}

// Rule is the section of the specification, or the name of rye's own rule.
func (p *Problem) Rule() string {
	if p.Section == "" {
		return "rye docs plugins"
	}
	return "Agent Plugins 1.0 §" + p.Section
}

// String is the problem as a line.
func (p *Problem) String() string {
	at := p.Path
	if p.At.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", at, p.At.Line, p.At.Column)
	}
	if at != "" {
		at += ": "
	}
	return fmt.Sprintf("%s%s: %s (%s)", at, p.Effect, p.Message, p.Rule())
}

func (p *Plugin) problem(found Problem, format string, args ...any) {
	found.Message = fmt.Sprintf(format, args...)
	p.Problems = appendProblem(p.Problems, found)
}

// maxProblems bounds the problems of a plugin. One with more is rejected.
const maxProblems = 10_000

func appendProblem(all []Problem, found Problem) []Problem {
	switch n := len(all); {
	case n < maxProblems-1:
		return append(all, found)
	case n < maxProblems:
		return append(all, Problem{Path: found.Path, Effect: Rejects,
			Message: fmt.Sprintf("the plugin has more than %d problems", maxProblems-1)})
	}
	return all
}

// Invalid returns the problems that break a rule.
func (p *Plugin) Invalid() (all []Problem) {
	for _, found := range p.Problems {
		if found.Invalid() {
			all = append(all, found)
		}
	}
	return all
}

// Rejected returns the error of a plugin that the specification or rye rejects as a whole, nil for any other.
func (p *Plugin) Rejected() error {
	var failure *fault.Error
	for _, found := range p.Problems {
		switch {
		case found.Effect != Rejects:
		case failure == nil:
			failure = fault.New(fault.Validation, "the plugin is rejected: %s", found.String()).On("reason", "plugin").
				On("file", found.Path).On("section", found.Section).Try("rye docs plugins")
		default:
			failure.Because(found.String())
		}
	}
	if failure == nil {
		return nil
	}
	return failure
}
