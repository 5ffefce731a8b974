package advisory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
)

// The limits of an advisory.
const (
	MaxBytes = 64 << 10

	maxID         = 100
	maxSummary    = 300
	maxDetails    = 32 << 10
	maxAliases    = 32
	maxReferences = 32
	maxURL        = 1000
	maxSpans      = 256
	maxVersions   = 256
	timeForm      = "2006-01-02T15:04:05Z"
)

// A Kind is what has turned out.
type Kind string

// The kinds of advisories.
const (
	Withdrawn  Kind = "withdrawn" // its publisher or the registry took the version back
	Malware    Kind = "malware"
	Vulnerable Kind = "vulnerable"
)

// Kinds are all kinds.
var Kinds = []Kind{Withdrawn, Malware, Vulnerable}

// An Advisory says what has turned out about versions of a bundle.
type Advisory struct {
	ID         string
	Published  time.Time
	Modified   time.Time
	Withdrawn  time.Time // zero: it counts
	Aliases    []string
	Summary    string
	Details    string
	Bundle     string
	Spans      []Span   // ascending
	Versions   []string // sorted
	Kind       Kind
	Severity   policy.Severity
	References []Reference
}

// A Span is the versions from one that introduced a problem.
type Span struct {
	Introduced   string // "0" for all versions up to its end
	Fixed        string // the first version that isn't affected; "" if LastAffected is set or the span is open
	LastAffected string
}

// A Reference leads to more about an advisory.
type Reference struct{ Type, URL string }

// referenceTypes are those of OSV.
var referenceTypes = []string{"ADVISORY", "ARTICLE", "DETECTION", "DISCUSSION", "REPORT", "FIX", "INTRODUCED",
	"PACKAGE", "EVIDENCE", "WEB"}

// Covers reports whether a version of the bundle is affected, whether or not the advisory was withdrawn.
func (a *Advisory) Covers(version string) bool {
	if slices.Contains(a.Versions, version) {
		return true
	}
	if manifest.CheckVersion(version) != nil {
		return false
	}
	return slices.ContainsFunc(a.Spans, func(s Span) bool { return s.has(version) })
}

func (s Span) has(version string) bool {
	switch {
	case s.Introduced != "0" && manifest.CompareVersions(version, s.Introduced) < 0:
		return false
	case s.Fixed != "":
		return manifest.CompareVersions(version, s.Fixed) < 0
	case s.LastAffected != "":
		return manifest.CompareVersions(version, s.LastAffected) <= 0
	}
	return true
}

// Notice returns the advisory as policies see it.
func (a *Advisory) Notice() policy.Notice {
	return policy.Notice{ID: a.ID, Severity: a.Severity, Kind: string(a.Kind), Summary: a.Summary}
}

// check returns why the advisory is invalid, or nil. A draft has neither an id nor times yet.
func (a *Advisory) check(draft bool) error {
	if !draft || a.ID != "" {
		if !IsID(a.ID) {
			return fmt.Errorf("%+q is not an id such as RYE-2026-0001", a.ID)
		}
	}
	if !draft && (a.Published.IsZero() || a.Modified.Before(a.Published)) {
		return errors.New("it was modified before it was published")
	}
	if !draft && !a.Withdrawn.IsZero() && a.Withdrawn.Before(a.Published) {
		return errors.New("it was withdrawn before it was published")
	}
	if !line(a.Summary, maxSummary) {
		return fmt.Errorf("the summary must be one line of at most %d bytes", maxSummary)
	}
	if len(a.Details) > maxDetails || a.Details != "" && !text(a.Details) {
		return fmt.Errorf("the details must be text of at most %d bytes", maxDetails)
	}
	if err := portable.CheckID(a.Bundle); err != nil {
		return fmt.Errorf("the package's name: %w", err)
	}
	if !slices.Contains(Kinds, a.Kind) {
		return fmt.Errorf("unknown kind %+q: expected one of %v", a.Kind, Kinds)
	}
	if a.Severity == policy.NoSeverity {
		return fmt.Errorf("it has no severity: expected one of %v", policy.Severities())
	}
	if len(a.Aliases) > maxAliases || slices.ContainsFunc(a.Aliases, func(s string) bool { return !IsID(s) }) {
		return fmt.Errorf("expected at most %d aliases, each an id", maxAliases)
	}
	if len(a.References) > maxReferences {
		return fmt.Errorf("more than %d references", maxReferences)
	}
	for _, r := range a.References {
		if !slices.Contains(referenceTypes, r.Type) {
			return fmt.Errorf("unknown type of a reference %+q: expected one of %v", r.Type, referenceTypes)
		}
		if !strings.HasPrefix(r.URL, "https://") && !strings.HasPrefix(r.URL, "http://") ||
			!portable.Spelled(r.URL, visible, "", maxURL) {
			return fmt.Errorf("a reference leads to %+q: expected a web address", r.URL)
		}
	}
	return a.checkVersions()
}

func (a *Advisory) checkVersions() error {
	switch {
	case len(a.Spans) == 0 && len(a.Versions) == 0:
		return errors.New("it has neither ranges nor versions")
	case len(a.Versions) > maxVersions:
		return fmt.Errorf("more than %d versions", maxVersions)
	case len(a.Spans) > maxSpans:
		return fmt.Errorf("more than %d events of a kind", maxSpans)
	}
	for i, version := range a.Versions {
		if err := manifest.CheckVersion(version); err != nil {
			return err
		}
		if i > 0 && a.Versions[i-1] >= version {
			return errors.New("its versions are unsorted or duplicate")
		}
	}
	last := ""
	for i, span := range a.Spans {
		if err := span.check(last, i == len(a.Spans)-1); err != nil {
			return err
		}
		last = span.Fixed + span.LastAffected
	}
	return nil
}

// check returns why a span can't follow one that ends at last, or nil.
func (s Span) check(last string, open bool) error {
	if s.Introduced != "0" || last != "" {
		if err := manifest.CheckVersion(s.Introduced); err != nil {
			return err
		}
	}
	if last != "" && manifest.CompareVersions(s.Introduced, last) <= 0 {
		return fmt.Errorf("the events are not in ascending order: %s stands behind %s", s.Introduced, last)
	}
	end := s.Fixed + s.LastAffected
	switch {
	case s.Fixed != "" && s.LastAffected != "":
		return errors.New("an event is both fixed and last_affected")
	case end == "" && open:
		return nil
	case end == "":
		return errors.New("only the last introduced version may have no fixed or last_affected")
	}
	if err := manifest.CheckVersion(end); err != nil {
		return err
	}
	if s.Introduced == "0" {
		return nil
	}
	switch c := manifest.CompareVersions(end, s.Introduced); {
	case c < 0, c == 0 && s.Fixed != "":
		return fmt.Errorf("the events are not in ascending order: %s stands behind %s", end, s.Introduced)
	}
	return nil
}

// visible is the characters of addresses.
const visible = portable.Letters + portable.Digits + "-._~:/?#[]@!$&'()*+,;=%"

// IsID reports whether s can be the id of an advisory.
func IsID(s string) bool { return portable.Spelled(s, portable.Letters+portable.Digits, "._-", maxID) }

// line reports whether s is one line of visible text.
func line(s string, most int) bool {
	return s != "" && len(s) <= most && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, hidden)
}

// text reports whether s is visible text of several lines.
func text(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && hidden(r) })
}

// hidden reports whether a character isn't shown, or changes how others are.
func hidden(r rune) bool {
	return r != ' ' && !unicode.IsGraphic(r) || r == unicode.ReplacementChar
}
