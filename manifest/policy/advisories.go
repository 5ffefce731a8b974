package policy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A Severity is how bad it is to run what an advisory covers.
type Severity uint8

// The severities. NoSeverity is none: in a policy, no advisory refuses.
const (
	NoSeverity Severity = iota
	Low
	Medium
	High
	Critical
)

var severities = []string{"", "low", "medium", "high", "critical"}

// String returns the word for a severity, or "".
func (s Severity) String() string { return severities[s] }

// Severities are the words for severities, the least first.
func Severities() []string { return slices.Clone(severities[Low:]) }

// ParseSeverity reads the word for a severity.
func ParseSeverity(word string) (Severity, bool) {
	i := slices.Index(severities, word)
	return Severity(max(i, 0)), i > 0
}

// An AdvisorySource is a registry whose advisories count for the bundles that came from it.
type AdvisorySource struct {
	Registry string        // its address, as rye.yaml and locks have it
	Load     Severity      // from which nothing of a bundle is loaded; NoSeverity: never
	Call     Severity      // from which nothing of it is called; NoSeverity: as Load
	MaxAge   time.Duration // how long advisories count as fresh after they were issued
	Warn     bool          // without fresh advisories, warn instead of refusing what came from the registry
}

// from returns the least severity that refuses a purpose. What can't be loaded can't be called.
func (a *AdvisorySource) from(p Purpose) Severity {
	switch {
	case p == ToShow:
		return NoSeverity
	case p == ToCall && a.Call != NoSeverity && (a.Load == NoSeverity || a.Call < a.Load):
		return a.Call
	}
	return a.Load
}

// An Advice is what a registry says about the version of a bundle that came from it. It can only refuse.
type Advice struct {
	Registry string // its address
	Bundle   string // as in "acme/base@1.0.0"
	Issued   time.Time
	Missing  bool     // the advisories of the registry were never read
	Broken   string   // why those that were read can't be used: they refuse, also where stale ones only warn
	Notices  []Notice // of the advisories in force that cover the version
}

// A Notice is an advisory that covers a version of a bundle.
type Notice struct {
	ID       string
	Severity Severity
	Kind     string // withdrawn, malware or vulnerable
	Summary  string
}

// advised returns Advised or AdvisoriesStale if this policy refuses the request for what its item's registry says, and
// otherwise Admitted.
func (s *Side) advised(answer *Answer, request *Request) Code {
	advice := request.Advice
	if advice == nil {
		return Admitted
	}
	i := slices.IndexFunc(s.Policy.sections.Advisories, func(a AdvisorySource) bool {
		return a.Registry == advice.Registry
	})
	if i < 0 {
		return Admitted
	}
	source := &s.Policy.sections.Advisories[i]
	from := source.from(request.Purpose)
	if from == NoSeverity {
		return Admitted
	}
	// Of several the worst is named. It counts from stale advisories too.
	for i := range advice.Notices {
		if n := &advice.Notices[i]; n.Severity >= from && (answer.Notice == nil ||
			n.Severity > answer.Notice.Severity) {
			answer.Advice, answer.Notice = advice, n
		}
	}
	if answer.Notice != nil {
		return Advised
	}
	why, refuses := advice.stale(source, request.Now), !source.Warn
	if advice.Broken != "" {
		why, refuses = advice.Broken, true
	}
	switch {
	case why == "":
	case refuses:
		answer.Advice, answer.Detail = advice, why
		return AdvisoriesStale
	default:
		answer.Warnings = append(answer.Warnings, fmt.Sprintf("the advisories of %q %s", source.Registry, why))
	}
	return Admitted
}

// stale returns why the advisories can't be relied upon now, or "". Their age counts from their signed time of issue,
// not from their arrival.
func (a *Advice) stale(source *AdvisorySource, now time.Time) string {
	switch {
	case a.Missing:
		return "were never read"
	case a.Issued.After(now.Add(maxAhead)):
		return fmt.Sprintf("were issued in the future, at %s: check the clock, which says %s", clock(a.Issued),
			clock(now))
	case now.Sub(a.Issued) > source.MaxAge:
		return fmt.Sprintf("were issued at %s, longer ago than %s; the clock says %s", clock(a.Issued),
			yamltree.AgeText(source.MaxAge), clock(now))
	}
	return ""
}

// Advise returns what this policy makes of an advice for a purpose: "" if it refuses nothing and warns of nothing. Two
// equal texts mean two equal answers.
func (s *Side) Advise(a *Advice, p Purpose, now time.Time) string {
	var answer Answer
	answer.Code = s.advised(&answer, &Request{Advice: a, Purpose: p, Now: now})
	if answer.Code == Admitted {
		return strings.Join(answer.Warnings, "\n")
	}
	return answer.reason()
}

// advisory returns why an advisory, or the lack of fresh ones, refuses.
func (a *Answer) advisory() string {
	if a.Code == AdvisoriesStale {
		return fmt.Sprintf("is from %s, which can't be checked: the advisories of %q %s", a.Advice.Bundle,
			a.Advice.Registry, a.Detail)
	}
	n := a.Notice
	return fmt.Sprintf("is from %s, which the advisory %s of %q covers (%s, %s): %q", a.Advice.Bundle, n.ID,
		a.Advice.Registry, n.Severity, n.Kind, n.Summary)
}

const maxAdvisorySources = 100

func (p *Policy) readAdvisories(section *yamltree.Node) error {
	if len(section.Kids) > maxAdvisorySources {
		return section.Errorf("has more than %d registries", maxAdvisorySources)
	}
	for _, n := range section.Kids {
		if u, err := url.Parse(n.Key); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
			u.User != nil || strings.ContainsAny(n.Key, "?# ") || strings.HasSuffix(n.Key, "/") {
			return n.Errorf("%q is not the address of a registry, as in \"https://registry.example\"",
				yamltree.Clip(n.Key))
		}
		if err := n.Fields("load", "call", "max-age", "stale"); err != nil {
			return err
		}
		source := AdvisorySource{Registry: n.Key}
		for _, field := range []struct {
			name string
			to   *Severity
		}{{"load", &source.Load}, {"call", &source.Call}} {
			word, err := n.Choice(field.name, severities[Low:]...)
			if err != nil {
				return err
			}
			*field.to, _ = ParseSeverity(word)
		}
		if source.Load == NoSeverity && source.Call == NoSeverity {
			return n.Errorf("%q has neither \"load\" nor \"call\": from which severity do its advisories refuse?",
				yamltree.Clip(n.Key))
		}
		var err error
		if source.MaxAge, err = n.Age("max-age", maxAge); err != nil {
			return err
		}
		stale, err := n.Choice("stale", "refuse", "warn")
		if err != nil {
			return err
		}
		source.Warn = stale == "warn"
		p.sections.Advisories = append(p.sections.Advisories, source)
	}
	return nil
}
