package advisory

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy"
)

// This file reads and writes advisories.

const (
	schemaVersion = "1.7.0"
	ecosystem     = "rye"
)

func invalid(err error) error { return fault.New(fault.Parsing, "advisory: %v", err).From(err) }

// Parse reads an advisory. What it accepts, Append writes again byte for byte.
func Parse(b []byte) (*Advisory, error) {
	a, err := read(b)
	if err == nil {
		err = a.check(false)
	}
	if err != nil {
		return nil, invalid(err)
	}
	again, err := a.Append(nil)
	if err == nil && !bytes.Equal(again, b) {
		err = invalid(errors.New("it isn't in canonical form"))
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// ParseDraft reads an advisory that a person has written: in any form that JSON allows, and perhaps without an id and
// times.
func ParseDraft(b []byte) (*Advisory, error) {
	a, err := read(b)
	if err == nil {
		slices.Sort(a.Versions)
		a.Versions = slices.Compact(a.Versions)
		err = a.check(true)
	}
	if err != nil {
		return nil, invalid(err)
	}
	return a, nil
}

// Append appends the advisory in its canonical form. If Parse would refuse the result, it returns dst unchanged with
// that error.
func (a *Advisory) Append(dst []byte) ([]byte, error) {
	if err := a.check(false); err != nil {
		return dst, invalid(err)
	}
	affected := map[string]any{"package": map[string]any{"ecosystem": ecosystem, "name": a.Bundle}}
	if len(a.Spans) > 0 {
		var events []any
		for _, s := range a.Spans {
			events = append(events, map[string]any{"introduced": s.Introduced})
			if s.Fixed != "" {
				events = append(events, map[string]any{"fixed": s.Fixed})
			}
			if s.LastAffected != "" {
				events = append(events, map[string]any{"last_affected": s.LastAffected})
			}
		}
		affected["ranges"] = []any{map[string]any{"type": "SEMVER", "events": events}}
	}
	if len(a.Versions) > 0 {
		affected["versions"] = list(a.Versions)
	}
	document := map[string]any{
		"schema_version": schemaVersion, "id": a.ID, "published": a.Published.UTC().Format(timeForm),
		"modified": a.Modified.UTC().Format(timeForm), "summary": a.Summary, "affected": []any{affected},
		"database_specific": map[string]any{"kind": string(a.Kind), "severity": a.Severity.String()},
	}
	if !a.Withdrawn.IsZero() {
		document["withdrawn"] = a.Withdrawn.UTC().Format(timeForm)
	}
	if a.Details != "" {
		document["details"] = a.Details
	}
	if len(a.Aliases) > 0 {
		document["aliases"] = list(a.Aliases)
	}
	if len(a.References) > 0 {
		var all []any
		for _, r := range a.References {
			all = append(all, map[string]any{"type": r.Type, "url": r.URL})
		}
		document["references"] = all
	}
	out, err := jcs.Append(dst, document)
	if err == nil && len(out)-len(dst) > MaxBytes {
		err = fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	if err != nil {
		return dst, invalid(err)
	}
	return out, nil
}

func list(words []string) (all []any) {
	for _, word := range words {
		all = append(all, word)
	}
	return all
}

func read(b []byte) (*Advisory, error) {
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	value, err := jcs.Parse(b)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	members := r.object("the advisory", value)
	a := &Advisory{}
	if version := r.text(members, "schema_version"); version != "" && !strings.HasPrefix(version, "1.") {
		r.refuse("schema_version %+q is unknown: expected %s", version, schemaVersion)
	}
	a.ID, a.Summary, a.Details = r.text(members, "id"), r.text(members, "summary"), r.text(members, "details")
	a.Published, a.Modified = r.time(members, "published"), r.time(members, "modified")
	a.Withdrawn = r.time(members, "withdrawn")
	a.Aliases = r.texts(members, "aliases")
	for _, one := range r.array(members, "references") {
		reference := r.object("a reference", one)
		a.References = append(a.References, Reference{r.text(reference, "type"), r.text(reference, "url")})
		r.end("a reference", reference)
	}
	specific := r.object("database_specific", r.member(members, "database_specific"))
	a.Kind = Kind(r.text(specific, "kind"))
	a.Severity, _ = policy.ParseSeverity(r.text(specific, "severity"))
	r.end("database_specific", specific)
	if all := r.array(members, "affected"); len(all) == 1 {
		r.affected(a, all[0])
	} else {
		r.refuse("it has %d entries under affected: an advisory is about one bundle", len(all))
	}
	r.end("the advisory", members)
	return a, r.err
}

// A reader takes members out of objects, and remembers the first that is wrong.
type reader struct{ err error }

func (r *reader) refuse(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) object(what string, value any) map[string]any {
	object, ok := value.(map[string]any)
	if !ok {
		r.refuse("%s is not an object", what)
	}
	return object
}

// member takes a member out of an object; nil if there is none.
func (r *reader) member(object map[string]any, name string) any {
	value := object[name]
	delete(object, name)
	return value
}

// end refuses what is left of an object.
func (r *reader) end(what string, object map[string]any) {
	for name := range object {
		r.refuse("unknown member %+q of %s", fault.Clip(name, 80), what)
	}
}

func (r *reader) text(object map[string]any, name string) string {
	if _, has := object[name]; !has {
		return ""
	}
	text, ok := r.member(object, name).(string)
	if !ok || text == "" {
		r.refuse("%s is not a text", name)
	}
	return text
}

func (r *reader) time(object map[string]any, name string) time.Time {
	text := r.text(object, name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(timeForm, text)
	if err != nil || at.Format(timeForm) != text || at.Year() < 1970 {
		r.refuse("%s is %+q: expected a time such as %q", name, fault.Clip(text, 80), timeForm)
	}
	return at
}

func (r *reader) array(object map[string]any, name string) []any {
	if _, has := object[name]; !has {
		return nil
	}
	all, ok := r.member(object, name).([]any)
	if !ok || len(all) == 0 {
		r.refuse("%s is not a list, or an empty one", name)
	}
	return all
}

func (r *reader) texts(object map[string]any, name string) (words []string) {
	for _, one := range r.array(object, name) {
		word, ok := one.(string)
		if !ok || word == "" {
			r.refuse("%s has something else than texts", name)
		}
		words = append(words, word)
	}
	return words
}

func (r *reader) affected(a *Advisory, value any) {
	affected := r.object("affected", value)
	pack := r.object("package", r.member(affected, "package"))
	if found := r.text(pack, "ecosystem"); found != ecosystem {
		r.refuse("the ecosystem is %+q: expected %q", fault.Clip(found, 80), ecosystem)
	}
	a.Bundle = r.text(pack, "name")
	r.end("package", pack)
	a.Versions = r.texts(affected, "versions")
	ranges := r.array(affected, "ranges")
	if len(ranges) > 1 {
		r.refuse("it has %d ranges: expected one of type SEMVER with all events", len(ranges))
	}
	for _, one := range ranges {
		members := r.object("a range", one)
		if found := r.text(members, "type"); found != "SEMVER" {
			r.refuse("the type of a range is %+q: expected SEMVER", fault.Clip(found, 80))
		}
		for _, event := range r.array(members, "events") {
			r.event(a, event)
		}
		if len(a.Spans) == 0 {
			r.refuse("a range has no events")
		}
		r.end("a range", members)
	}
	r.end("affected", affected)
}

// event adds an event to the spans: a version that introduced a problem begins one, and another kind ends it.
func (r *reader) event(a *Advisory, value any) {
	event := r.object("an event", value)
	if len(event) != 1 {
		r.refuse("an event has %d members: expected one of introduced, fixed and last_affected", len(event))
	}
	introduced, fixed, last := r.text(event, "introduced"), r.text(event, "fixed"), r.text(event, "last_affected")
	r.end("an event", event)
	if introduced != "" {
		a.Spans = append(a.Spans, Span{Introduced: introduced})
		return
	}
	n := len(a.Spans) - 1
	if n < 0 || a.Spans[n].Fixed+a.Spans[n].LastAffected != "" {
		r.refuse("an event doesn't follow one with introduced")
		return
	}
	a.Spans[n].Fixed, a.Spans[n].LastAffected = fixed, last
}
