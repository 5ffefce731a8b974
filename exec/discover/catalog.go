package discover

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
)

// The media types of a catalogue that have a meaning here.
const (
	catalogMedia = "application/ai-catalog+json"
	cardMedia    = "application/mcp-server-card+json"
	markdownType = "application/agent-skills+md"
)

func kindOf(media string) Kind {
	switch media {
	case markdownType, "application/agent-skills+zip", "application/agent-skills+gzip":
		return Skill
	case cardMedia:
		return Server
	case format.BundleType:
		return Bundle
	case "application/agent-plugins+zip", "application/agent-plugins+gzip":
		return Plugin
	}
	return Other
}

// parseCatalog reads an AI catalogue of the major version 1. Unknown members are ignored, as its specification says.
func parseCatalog(v any, base *url.URL) ([]*Found, error) {
	m, ok := v.(map[string]any)
	version := member(m, "specVersion")
	major, _, _ := strings.Cut(version, ".")
	entries, list := m["entries"].([]any)
	switch {
	case !ok || version == "":
		return nil, fault.New(fault.Validation, "it has no specVersion")
	case major != "1" && major != "0":
		return nil, fault.New(fault.Validation, "it has the version %q, and rye reads 1", fault.Clip(version, 20))
	case !list:
		return nil, fault.New(fault.Validation, "it has no entries")
	case len(entries) > maxEntries:
		return nil, fault.New(fault.Limit, "it has more than %d entries", maxEntries)
	}
	all, seen := make([]*Found, len(entries)), map[[2]string]bool{}
	for i, one := range entries {
		e, ok := one.(map[string]any)
		id, media := member(e, "identifier"), member(e, "type")
		if !ok || id == "" || media == "" {
			return nil, fault.New(fault.Validation, "entry %d has no identifier or no type", i+1)
		}
		f := &Found{Kind: kindOf(media), Media: media, Identifier: id, Name: id[strings.LastIndexAny(id, ":/")+1:],
			Title: member(e, "displayName"), Version: member(e, "version"), Description: member(e, "description")}
		if key := [2]string{id, f.Version}; seen[key] {
			return nil, fault.New(fault.Validation, "entry %d has the identifier and version of another", i+1)
		} else {
			seen[key] = true
		}
		if publisher, ok := e["publisher"].(map[string]any); ok {
			f.Publisher = member(publisher, "displayName") + " (" + member(publisher, "identifier") + ")"
		}
		f.claims(e["trustManifest"])
		_, inline := e["data"]
		raw, link := e["url"].(string)
		switch {
		case inline == link:
			return nil, fault.New(fault.Validation, "entry %d must have either url or data", i+1)
		case inline:
			f.Refused = "it is in the catalogue itself, and rye adds only what has an address"
		default:
			var err error
			if f.Address, err = resolve(base, raw); err != nil {
				f.Refused = err.Error()
			}
		}
		if f.Kind == Other && media != catalogMedia && f.Refused == "" {
			f.Refused = "rye can't add the type " + media
		}
		all[i] = f
	}
	return all, nil
}

// claims notes what a trust manifest says. It is shown and never used: the policy decides what is admitted.
func (f *Found) claims(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	f.Trust = "claims to be " + member(m, "identity")
	if member(m, "signature") != "" {
		f.Trust += ", with a signature that rye does not verify"
	}
	if subject, ok := m["subject"].(map[string]any); ok {
		f.Digest = member(subject, "digest")
	}
}

// Endpoint returns the address of an MCP server, which its card names.
func (f *Found) Endpoint(ctx context.Context, fetch Fetch) (string, error) {
	b, err := fetch(ctx, f.Address, maxDocument)
	if err != nil {
		return "", err
	}
	found, err := read(b, f.Address, func(v any, base *url.URL) ([]*Found, error) {
		card, _ := v.(map[string]any)
		remotes, _ := card["remotes"].([]any)
		for _, one := range remotes {
			r, _ := one.(map[string]any)
			if kind := member(r, "type"); kind != "streamable-http" || strings.ContainsAny(member(r, "url"), "{}") {
				continue
			}
			address, err := resolve(base, member(r, "url"))
			return []*Found{{Address: address}}, err
		}
		return nil, fault.New(fault.Validation, "the card of the server %q names no address of Streamable HTTP",
			f.Name)
	})
	if err != nil {
		return "", err
	}
	return found[0].Address, nil
}

// Files returns the skill at an address: an archive with one skill, or SKILL.md. digest is of the archive.
func (f *Found) Files(ctx context.Context, fetch Fetch) (one *skill.Skill, digest string, err error) {
	if f.files != nil {
		one, err = f.listed(ctx, fetch)
		return one, "", err
	}
	b, err := fetch(ctx, f.Address, skill.MaxArchive)
	if err != nil {
		return nil, "", err
	}
	if err := f.check(b); err != nil {
		return nil, "", err
	}
	if f.Media == markdownType { // a catalogue's name need not be the skill's
		text, err := skill.ParseText(skill.Main, b)
		if err != nil {
			return nil, "", err
		}
		one, err = skill.FromFiles(text.Name, []skill.File{{Path: skill.Main, Bytes: b}})
		return one, "", cmp.Or(err, f.named(one))
	}
	all, err := skill.ReadArchive(b)
	if err != nil {
		return nil, "", err
	}
	if len(all) != 1 || all[0].Err != nil {
		return nil, "", fault.New(fault.Validation, "the archive of %q has %d skills, and one was offered", f.Name,
			len(all)).Try(fault.Command("rye import skill", f.Address))
	}
	return all[0], cas.Sum(b).String(), f.named(all[0])
}

// named refuses a skill with another name than an index has.
func (f *Found) named(one *skill.Skill) error {
	if f.Identifier == "" && one != nil && one.Name != f.Name {
		return fault.New(fault.Validation, "the host lists %q, and the skill's name is %q", f.Name, one.Name)
	}
	return nil
}
