package discover

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/jcs"
)

// Limits on the documents of a host.
const (
	maxDocument = 4 << 20
	maxEntries  = 1000 // of one document
	maxNested   = 16   // catalogues in a catalogue
)

// The statuses of a document that a host doesn't have.
const (
	notFound = 404
	gone     = 410
)

// The paths at which a host may describe what it offers.
const (
	catalogPath = "/.well-known/ai-catalog.json"
	indexPath   = "/.well-known/agent-skills/index.json"
)

// A Fetch gets a document of at most so many bytes. Only the host that the user has typed is the user's own.
type Fetch func(ctx context.Context, address string, most int64) ([]byte, error)

// A Kind says how a thing is added.
type Kind string

// The kinds.
const (
	Skill  Kind = "skill"
	Server Kind = "mcp-server"
	Bundle Kind = "bundle"
	Plugin Kind = "plugin"
	Other  Kind = "other"
)

// A Found thing is what a host says of something that it offers. All of it is a claim.
type Found struct {
	Kind        Kind   `json:"type"`
	Media       string `json:"media_type,omitempty"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Identifier  string `json:"identifier,omitempty"`
	Version     string `json:"version,omitempty"`
	Publisher   string `json:"publisher,omitempty"`
	Address     string `json:"address"`
	Digest      string `json:"digest,omitempty"`
	Description string `json:"description"`
	Trust       string `json:"trust,omitempty"`   // what a trust manifest claims, which rye neither verifies nor uses
	Refused     string `json:"refused,omitempty"` // why it can't be added

	files []indexFile // of an index that lists them
}

// IsHost reports whether an argument is the address of a host, without a path.
func IsHost(text string) bool {
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == ""
}

// Host lists what a host offers: the entries of its catalogue, of catalogues in that one, and of its index of skills.
func Host(ctx context.Context, fetch Fetch, address string) ([]*Found, error) {
	base := strings.TrimRight(address, "/")
	if _, err := web.Parse(base); err != nil {
		return nil, fault.New(fault.Validation, "%q: %v", web.Shown(address), err).From(err)
	}
	all, catalogue, err := document(ctx, fetch, base+catalogPath, parseCatalog)
	if err != nil {
		return nil, err
	}
	skills, index, err := document(ctx, fetch, base+indexPath, parseIndex)
	if err != nil {
		return nil, err
	}
	if !catalogue && !index {
		return nil, fault.New(fault.NotFound, "%q offers nothing", web.Shown(base)).
			Because("it has neither "+catalogPath, "nor "+indexPath).On("url", web.Shown(base))
	}
	return append(nested(ctx, fetch, all), skills...), nil
}

// document reads a document of the host; false if it has none.
func document(ctx context.Context, fetch Fetch, address string,
	parse func(v any, base *url.URL) ([]*Found, error)) ([]*Found, bool, error) {
	b, err := fetch(ctx, address, maxDocument)
	if e, ok := errors.AsType[*web.StatusError](err); ok && (e.Status == notFound || e.Status == gone) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	found, err := read(b, address, parse)
	if err != nil {
		return nil, false, fault.Wrap(err, "%q is malformed: %v", web.Shown(address), err)
	}
	return found, true, nil
}

func read(b []byte, address string, parse func(any, *url.URL) ([]*Found, error)) ([]*Found, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	v, err := jcs.Parse(b)
	if err != nil {
		return nil, fault.New(fault.Validation, "%v", err).From(err)
	}
	return parse(v, base)
}

// nested puts the entries of each catalogue in a catalogue into its place. Catalogues in those are not read.
func nested(ctx context.Context, fetch Fetch, all []*Found) (out []*Found) {
	n := 0
	for _, f := range all {
		if f.Media != catalogMedia || f.Refused != "" {
			out = append(out, f)
			continue
		}
		if n++; n > maxNested {
			f.Refused = "the host has too many catalogues"
			out = append(out, f)
			continue
		}
		b, err := fetch(ctx, f.Address, maxDocument)
		var more []*Found
		if err == nil {
			more, err = read(b, f.Address, parseCatalog)
		}
		if err != nil {
			f.Refused = "it can't be read: " + err.Error()
			out = append(out, f)
			continue
		}
		for _, inner := range more {
			if inner.Media == catalogMedia {
				inner.Refused = "a catalogue in a catalogue in a catalogue is not read"
			}
		}
		out = append(out, more...)
	}
	return out
}

// Pick returns the thing that a name, name@version, title, identifier or address means.
func Pick(all []*Found, name string) (*Found, error) {
	var found []*Found
	var lines, names []string
	for _, f := range all {
		if slices.Contains([]string{f.Name, f.Name + "@" + f.Version, f.Title, f.Identifier, f.Address}, name) {
			found, lines = append(found, f), append(lines, string(f.Kind)+" "+f.Name+"@"+cmp.Or(f.Version, "?")+
				" "+f.Address)
		}
		names = append(names, f.Name)
	}
	switch {
	case name == "" || len(found) == 0:
		return nil, notOffered(name, names)
	case len(found) > 1:
		return nil, fault.New(fault.Ambiguous, "%d things have the name %q: give NAME@VERSION, or an address",
			len(found), name).Because(lines...)
	case found[0].Refused != "":
		return nil, fault.New(fault.Validation, "%q can't be added: %s", name, found[0].Refused).
			On("media_type", found[0].Media)
	}
	return found[0], nil
}

// resolve returns an address of a document as a whole one.
func resolve(base *url.URL, raw string) (string, error) {
	ref, err := url.Parse(raw)
	if err != nil || raw == "" {
		return "", fault.New(fault.Validation, "invalid address %q", fault.Clip(raw, 200))
	}
	u := base.ResolveReference(ref)
	if _, err := web.Parse(u.String()); err != nil {
		return "", fault.New(fault.Validation, "the address %q: %v", web.Shown(raw), err)
	}
	return u.String(), nil
}

func member(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}
