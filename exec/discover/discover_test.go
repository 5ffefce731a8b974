package discover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/discover"
	"github.com/rye-build/rye/lock/web"
)

// A host serves documents by address, and notes what was asked.
type host struct {
	files map[string]string
	asked []string
}

const (
	at        = "https://acme.example"
	catalogue = at + "/.well-known/ai-catalog.json"
	index     = at + "/.well-known/agent-skills/index.json"
)

func (h *host) fetch(_ context.Context, address string, most int64) ([]byte, error) {
	h.asked = append(h.asked, address)
	text, ok := h.files[address]
	if !ok {
		return nil, fmt.Errorf("%q: %w", address, &web.StatusError{Status: 404})
	}
	if int64(len(text)) > most {
		return nil, errors.New("too large")
	}
	return []byte(text), nil
}

func entries(all ...string) string {
	return `{"specVersion":"1.0","entries":[` + strings.Join(all, ",") + `]}`
}

func listed(all ...string) string {
	return `{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[` +
		strings.Join(all, ",") + `]}`
}

// entry is one of an index.
func entry(name, kind, address, digest string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"description":"Says","url":%q,"digest":%q}`, name, kind, address, digest)
}

const (
	greet = "---\nname: greet\ndescription: Greets\n---\nHi.\n"
	card  = `{"identifier":"urn:air:acme.example:mcp:wiki","type":"application/mcp-server-card+json","url":"/card"}`
)

// TestHost: what a host says at both paths is listed, catalogues in it once, with what can't be added and why.
func TestHost(t *testing.T) {
	h := &host{files: map[string]string{
		catalogue: entries(card,
			`{"identifier":"urn:air:acme.example:skill:greet","type":"application/agent-skills+md","url":"greet.md",`+
				`"version":"1.2.0","displayName":"Greeter","description":"Greets","tags":[1],"publisher":`+
				`{"identifier":"did:web:acme.example","displayName":"Acme"},"trustManifest":{"identity":"did:web:evil.example",`+
				`"signature":"x","subject":{"digest":"sha256:12"}}}`,
			`{"identifier":"urn:air:acme.example:agent:a","type":"application/a2a-agent-card+json","url":"https://b.example/a"}`,
			`{"identifier":"x","type":"application/agent-skills+md","data":"---"}`,
			`{"identifier":"y","type":"application/agent-skills+zip","url":"http://other.example/x.zip"}`,
			`{"identifier":"z","type":"application/agent-skills+zip","url":"file:///etc/passwd"}`,
			`{"identifier":"urn:air:acme.example:catalog:more","type":"application/ai-catalog+json","url":"/more.json"}`,
			`{"identifier":"gone","type":"application/ai-catalog+json","url":"/gone.json"}`),
		at + "/more.json": entries(
			`{"identifier":"p","type":"application/agent-plugins+zip","url":"p.zip"}`,
			`{"identifier":"deeper","type":"application/ai-catalog+json","url":"/.well-known/ai-catalog.json"}`),
		index: listed(entry("say", "skill-md", "say/SKILL.md", offer.Digest([]byte(greet)))),
	}}
	all, err := discover.Host(t.Context(), h.fetch, at+"/")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		got = append(got, fmt.Sprintf("%s %s %s refused=%t", f.Kind, f.Name, f.Address, f.Refused != ""))
	}
	want := []string{
		"mcp-server wiki https://acme.example/card refused=false",
		"skill greet https://acme.example/.well-known/greet.md refused=false",
		"other a https://b.example/a refused=true",
		"skill x  refused=true",
		"skill y  refused=true",
		"skill z  refused=true",
		"plugin p https://acme.example/p.zip refused=false",
		"other deeper https://acme.example/.well-known/ai-catalog.json refused=true",
		"other gone https://acme.example/gone.json refused=true",
		"skill say https://acme.example/.well-known/agent-skills/say/SKILL.md refused=false",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if f := all[1]; f.Trust != "claims to be did:web:evil.example, with a signature that rye does not verify" ||
		f.Publisher != "Acme (did:web:acme.example)" || f.Version != "1.2.0" || f.Digest != "sha256:12" {
		t.Errorf("%+v", f)
	}
	if len(h.asked) != 4 {
		t.Error(h.asked)
	}
	for name, want := range map[string]string{"greet": "greet", "greet@1.2.0": "greet", "Greeter": "greet",
		"urn:air:acme.example:skill:greet": "greet", "say": "say", at + "/card": "wiki"} {
		if f, err := discover.Pick(all, name); err != nil || f.Name != want {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	for name, code := range map[string]fault.Code{"none": fault.NotFound, "": fault.NotFound, "a": fault.Validation,
		"y": fault.Validation} {
		if _, err := discover.Pick(all, name); fault.CodeOf(err) != code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMalformed: a document that is malformed, or too much, is refused as a whole.
func TestMalformed(t *testing.T) {
	one := `{"identifier":"a","type":"t","url":"/a"}`
	for what, c := range map[string][2]string{
		"no JSON":        {catalogue, "{"},
		"a name twice":   {catalogue, `{"specVersion":"1.0","entries":[],"entries":[]}`},
		"deep":           {catalogue, `{"specVersion":"1.0","entries":` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5) + "}"},
		"no UTF-8":       {catalogue, "{\"specVersion\":\"\xff\",\"entries\":[]}"},
		"a list":         {catalogue, "[]"},
		"no version":     {catalogue, `{"entries":[]}`},
		"version 2":      {catalogue, `{"specVersion":"2.0","entries":[]}`},
		"no entries":     {catalogue, `{"specVersion":"1.0"}`},
		"an entry twice": {catalogue, entries(one, one)},
		"no identifier":  {catalogue, entries(`{"type":"t","url":"/a"}`)},
		"no type":        {catalogue, entries(`{"identifier":"a","url":"/a"}`)},
		"no url":         {catalogue, entries(`{"identifier":"a","type":"t"}`)},
		"url and data":   {catalogue, entries(`{"identifier":"a","type":"t","url":"/a","data":{}}`)},
		"too many":       {catalogue, entries(strings.Repeat(one+",", 1000) + one)},
		"too large":      {catalogue, strings.Repeat(" ", 5<<20)},
		"index: a list":  {index, "[]"},
		"index: 1":       {index, `{"version":"1.0.0","skills":[]}`},
		"index: no name": {index, listed(`{"name":"../x"}`)},
	} {
		h := &host{files: map[string]string{c[0]: c[1]}}
		if all, err := discover.Host(t.Context(), h.fetch, at); err == nil {
			t.Errorf("%s: %v", what, all)
		}
	}
	h := &host{}
	if _, err := discover.Host(t.Context(), h.fetch, at); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	for _, address := range []string{"http://acme.example", "https://me@acme.example", "ftp://acme.example"} {
		if _, err := discover.Host(t.Context(), h.fetch, address); fault.CodeOf(err) != fault.Validation {
			t.Error(address, err)
		}
	}
	if len(h.asked) != 2 {
		t.Error(h.asked)
	}
}

// TestSkillOfIndex: a skill that an index lists is what it says, in both forms of an entry.
func TestSkillOfIndex(t *testing.T) {
	digest := offer.Digest([]byte(greet))
	notes := offer.Digest([]byte("n"))
	all := offer.Digest([]byte("SKILL.md\x00" + digest[7:] + "\nnotes/a b.md\x00" + notes[7:] + "\n"))
	files := func(list string) string {
		return fmt.Sprintf(`{"version":"0.2.0","skills":[{"name":"greet","description":"x","digest":%q,"files":%s}]}`,
			all, list)
	}
	good := files(fmt.Sprintf(`[{"path":"notes/a b.md","digest":%q},{"path":"SKILL.md","digest":%q}]`, notes, digest))
	for what, c := range map[string]struct {
		index, text string
		ok          bool
	}{
		"files":              {good, greet, true},
		"other bytes":        {good, greet + "x", false},
		"other digest":       {strings.Replace(good, all, digest, 1), greet, false},
		"a path that leads":  {strings.Replace(good, "notes/a b.md", "../a", 1), greet, false},
		"a file twice":       {strings.Replace(good, "notes/a b.md", "SKILL.md", 1), greet, false},
		"version 0.1":        {`{"skills":[{"name":"greet","files":["SKILL.md"]}]}`, greet, false},
		"no files":           {files("[]"), greet, false},
		"SKILL.md":           {listed(entry("greet", "skill-md", "greet/SKILL.md", digest)), greet, true},
		"SKILL.md, no hash":  {listed(`{"name":"greet","type":"skill-md","url":"greet/SKILL.md"}`), greet, false},
		"SKILL.md, changed":  {listed(entry("greet", "skill-md", "greet/SKILL.md", notes)), greet, false},
		"another name":       {listed(entry("other", "skill-md", "greet/SKILL.md", digest)), greet, false},
		"no archive":         {listed(entry("greet", "archive", "greet/SKILL.md", digest)), greet, false},
		"another type":       {listed(entry("greet", "x", "greet/SKILL.md", digest)), greet, false},
		"a file of the disk": {listed(entry("greet", "skill-md", "file:///a", digest)), greet, false},
	} {
		base := at + "/.well-known/agent-skills/greet/"
		h := &host{files: map[string]string{index: c.index, base + "SKILL.md": c.text, base + "notes/a%20b.md": "n"}}
		found, err := discover.Host(t.Context(), h.fetch, at)
		if err == nil {
			var f *discover.Found
			if f, err = discover.Pick(found, found[0].Name); err == nil {
				_, _, err = f.Files(t.Context(), h.fetch)
			}
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEndpoint: the address of an MCP server is the one that its card names.
func TestEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		`{"remotes":[{"type":"sse","url":"/sse"},{"type":"streamable-http","url":"https://b.example/mcp"}]}`: "https://b." +
			"example/mcp",
		`{"remotes":[{"type":"streamable-http","url":"/mcp"}]}`:                     at + "/mcp",
		`{"remotes":[{"type":"streamable-http","url":"https://{tenant}.example"}]}`: "",
		`{"remotes":[{"type":"streamable-http","url":"http://a.example/mcp"}]}`:     "",
		`{"remotes":[{"type":"streamable-http"}]}`:                                  "",
		`{"packages":[{}]}`: "",
		`[]`:                "",
	} {
		h := &host{files: map[string]string{catalogue: entries(card), at + "/card": text}}
		all, err := discover.Host(t.Context(), h.fetch, at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := all[0].Endpoint(t.Context(), h.fetch); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
