package mcp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	primitive "github.com/rye-build/rye/exec/primitive/mcp"
	"github.com/rye-build/rye/exec/sandbox"
)

// A listing is the params and the result of each method of the extension for skills.
type (
	skillsParams struct {
		sdk.ParamsBase
		URI    string `json:"uri,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}
	skillsResult struct {
		sdk.ResultBase
		sdk.Cacheable
		Type      string          `json:"resultType"`
		Skills    []skillEntry    `json:"skills"`
		Skill     *skillEntry     `json:"skill"`
		Resources []*sdk.Resource `json:"resources"`
		Next      string          `json:"nextCursor"`
	}
	skillEntry struct {
		URI         string `json:"uri"`
		Frontmatter object `json:"frontmatter"`
		Resources   []struct {
			URI    string `json:"uri"`
			Digest string `json:"digest"`
			Size   int    `json:"size"`
		} `json:"resources"`
	}
)

func withSkills(t *testing.T, c *sdk.Client) {
	for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
		if err := sdk.AddSendingCustomMethod[*skillsParams, *skillsResult](c, method); err != nil {
			t.Fatal(err)
		}
	}
}

func askSkills(t *testing.T, c *sdk.ClientSession, method string, p skillsParams) (*skillsResult, error) {
	t.Helper()
	return sdk.CallCustomMethod[*skillsParams, *skillsResult](t.Context(), c, method, &p)
}

// forms are the files of a skill.
var forms = map[string]string{
	"SKILL.md": "---\nname: pdf-forms\ndescription: \"Fills in \\\"forms\\\"\"\nlicense: MIT\nallowed-tools: Bash(rm:*)\n" +
		"metadata: {version: \"1.2.0\", pages: 3, ratio: 0.5, draft: false}\ncolour: blue\n---\n\r\nRead references/a b.md.\n",
	"references/a b.md":     "# A, b\n",
	"references/deep/c.txt": "c",
	"scripts/fill.py":       "print('fill')\n",
	"assets/logo.png":       "\x89PNG\xff\x00",
}

// putSkill makes the items of a skill as rye import skill does, signs them, and pins them.
func (s *served) putSkill(category, name string, files map[string]string) {
	s.t.Helper()
	text, err := skill.ParseText(skill.Main, []byte(files[skill.Main]))
	s.must(err)
	one := &skill.Skill{Text: *text, Path: name}
	for path, b := range files {
		s.p.Write(".ai/tools/"+category+"/"+name+"/_files/"+path, b)
		one.Files = append(one.Files, skill.File{Path: path, Bytes: []byte(b)})
	}
	tool, directive := skill.In(category).Refs(name)
	s.p.Put("tools/"+tool.ID+".yaml", string(one.ToolText(skill.In(category),
		skill.Origin{From: "https://acme.example/s.zip"})))
	s.p.Put("directives/"+directive.ID+".md", string(one.DirectiveText(skill.In(category))))
	s.lock()
}

// TestSkills: a client with the extension gets exactly the imported skills that are pinned, with the digests of their
// files, over lines and over HTTP, from the pinned bytes and not from the working tree.
func TestSkills(t *testing.T) {
	s := serving(t)
	s.putSkill("skills", "pdf-forms", forms)
	// A tool with such a name that no import made is no skill.
	s.p.Put("tools/acme/other/skill.yaml", echo)
	s.lock()
	// Not pinned.
	s.p.Write(".ai/tools/skills/pdf-forms/_files/SKILL.md", "---\nname: pdf-forms\ndescription: changed\n---\n")
	l := s.listen()
	client := sdk.NewClient(&sdk.Implementation{Name: "skills", Version: "1"}, nil)
	withSkills(t, client)
	for what, transport := range map[string]sdk.Transport{"http": l.transport(l.secret("ci")), "lines": s.lines()} {
		c, err := client.Connect(t.Context(), transport, nil)
		s.must(err)
		has, _ := c.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/skills"].(object)
		if has["directoryRead"] != true || c.InitializeResult().Capabilities.Resources == nil {
			t.Errorf("%s: %v", what, c.InitializeResult().Capabilities)
		}
		all, err := askSkills(t, c, "skills/list", skillsParams{})
		s.must(err)
		if len(all.Skills) != 1 || all.Type != "complete" || all.CacheScope != "private" || all.Next != "" {
			t.Fatalf("%s: %+v", what, all)
		}
		one := all.Skills[0]
		got, err := json.Marshal(one.Frontmatter)
		s.must(err)
		want := `{"allowed-tools":"Bash(rm:*)","colour":"blue","description":"Fills in \"forms\"","license":"MIT",` +
			`"metadata":{"draft":false,"pages":3,"ratio":0.5,"version":"1.2.0"},"name":"pdf-forms"}`
		if string(got) != want || one.URI != "skill://skills/pdf-forms/SKILL.md" {
			t.Errorf("%s: %s %s", what, one.URI, got)
		}
		again, err := askSkills(t, c, "skills/get", skillsParams{URI: one.URI})
		s.must(err)
		if again.Skill == nil || fmt.Sprint(*again.Skill) != fmt.Sprint(one) || again.Type != "complete" {
			t.Errorf("%s: %+v", what, again)
		}
		found := map[string]string{}
		for _, f := range one.Resources {
			r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: f.URI})
			s.must(err)
			b := r.Contents[0].Blob
			if b == nil {
				b = []byte(r.Contents[0].Text)
			}
			if sum := sha256.Sum256(b); f.Digest != "sha256:"+hex.EncodeToString(sum[:]) || f.Size != len(b) ||
				len(r.Contents) != 1 {
				t.Errorf("%s: %s", what, f.URI)
			}
			found[strings.TrimPrefix(strings.ReplaceAll(f.URI, "%20", " "), "skill://skills/pdf-forms/")] = string(b)
		}
		if fmt.Sprint(found) != fmt.Sprint(forms) {
			t.Errorf("%s: %q", what, found)
		}
		for uri, want := range map[string]string{
			"skill://skills": "pdf-forms inode/directory",
			"skill://skills/pdf-forms": "pdf-forms text/markdown, assets inode/directory, " +
				"references inode/directory, scripts inode/directory",
			"skill://skills/pdf-forms/references": "a%20b.md text/markdown, deep inode/directory",
		} {
			r, err := askSkills(t, c, "resources/directory/read", skillsParams{URI: uri})
			s.must(err)
			var children []string
			for _, child := range r.Resources {
				children = append(children, child.Name+" "+child.MIMEType)
			}
			if strings.Join(children, ", ") != want || r.Type != "complete" {
				t.Errorf("%s, %s: %q", what, uri, children)
			}
		}
		for _, bad := range []struct{ method, uri, cursor string }{
			{"skills/get", "skill://skills/none/SKILL.md", ""},
			{"skills/get", "skill://skills/pdf-forms", ""},
			{"skills/get", "skill://acme/other/SKILL.md", ""},
			{"skills/get", "", ""},
			{"skills/list", "", "1"},
			{"resources/directory/read", one.URI, ""},
			{"resources/directory/read", "skill://skills/pdf-forms/", ""},
			{"resources/directory/read", "skill:/", ""},
			{"resources/directory/read", "", ""},
			{"resources/directory/read", "file:///etc", ""},
		} {
			_, err := askSkills(t, c, bad.method, skillsParams{URI: bad.uri, Cursor: bad.cursor})
			if wrong, ok := errors.AsType[*jsonrpc.Error](err); !ok || wrong.Code != -32602 {
				t.Errorf("%s, %s %q %q: %v", what, bad.method, bad.uri, bad.cursor, err)
			}
		}
		for _, uri := range []string{"skill://skills/pdf-forms/../../../policy.yaml", "skill://skills/pdf-forms/none",
			"skill://skills/pdf-forms", "skill://skills/pdf-forms/skill.yaml"} {
			_, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
			if wrong, ok := errors.AsType[*jsonrpc.Error](err); !ok || wrong.Code != -32602 {
				t.Errorf("%s, %s: %v", what, uri, err)
			}
		}
		// Without the extension the text is an ordinary resource.
		resources, err := c.ListResources(t.Context(), nil)
		s.must(err)
		at := slices.IndexFunc(resources.Resources, func(r *sdk.Resource) bool { return r.URI == one.URI })
		if at < 0 || resources.Resources[at].Name != "pdf-forms" ||
			resources.Resources[at].Description != `Fills in "forms"` {
			t.Errorf("%s: %v", what, resources.Resources)
		}
		s.must(c.Close())
	}
}

// TestSkillsAreAdded: what this server offers, this program's own client takes, and it is the same skill.
func TestSkillsAreAdded(t *testing.T) {
	s := serving(t)
	s.putSkill("skills", "pdf-forms", forms)
	l := s.listen()
	secret := l.secret("ci")
	// The client sends no token.
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+secret)
		l.http.ServeHTTP(w, r)
	}))
	defer open.Close()
	client := &primitive.Client{HTTP: &httpclient.Client{}, Version: "test"}
	c, err := client.OpenSkills(t.Context(), open.URL+"/mcp", sandbox.Network{Hosts: []string{open.Listener.Addr().
		String()}})
	s.must(err)
	defer c.Close()
	all, err := c.List(t.Context())
	s.must(err)
	if len(all) != 1 || all[0].Err != nil {
		t.Fatalf("%+v", all)
	}
	one, err := c.Read(t.Context(), all[0])
	s.must(err)
	found := map[string]string{}
	for _, f := range one.Files {
		found[f.Path] = string(f.Bytes)
	}
	if fmt.Sprint(found) != fmt.Sprint(forms) || one.Name != "pdf-forms" || one.Path != "skill://skills/pdf-forms" {
		t.Errorf("%q", found)
	}
	if _, err := c.Get(t.Context(), "skill://skills/none/SKILL.md"); err == nil {
		t.Error("an unknown skill is there")
	}
}

// lines serves another client by lines.
func (s *served) lines() sdk.Transport {
	w := s.raw()
	return &sdk.IOTransport{Reader: readCloser{w.from, w.to}, Writer: w.to}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// TestSkillsFollowTheLock: a skill that another lock has is listed with it, and one that was revoked is gone at once.
func TestSkillsFollowTheLock(t *testing.T) {
	s := serving(t)
	client := sdk.NewClient(&sdk.Implementation{Name: "skills", Version: "1"}, nil)
	withSkills(t, client)
	l := s.listen()
	c, err := client.Connect(t.Context(), l.transport(l.secret("ci")), nil)
	s.must(err)
	list := func() (names []string) {
		r, err := askSkills(t, c, "skills/list", skillsParams{})
		s.must(err)
		for _, one := range r.Skills {
			names = append(names, one.URI)
		}
		return names
	}
	if got := list(); len(got) != 0 {
		t.Error(got)
	}
	s.putSkill("skills", "pdf-forms", forms)
	if got := list(); len(got) != 1 {
		t.Error(got)
	}
	b, err := os.ReadFile(s.p.At(".ai/tools/skills/pdf-forms/skill.yaml"))
	s.must(err)
	s.policy(fmt.Sprintf("\nrevoked:\n  %q: {reason: unsafe, date: \"2026-11-20\"}\n", cas.Sum(b)))
	if got := list(); len(got) != 0 {
		t.Error(got)
	}
	if _, err := c.ReadResource(t.Context(),
		&sdk.ReadResourceParams{URI: "skill://skills/pdf-forms/SKILL.md"}); err == nil {
		t.Error("a revoked skill is read")
	}
	s.must(c.Close())
}

// TestSkillsPages: a long listing has pages, and an entry is on one of them; a skill beyond the limits of the
// extension is left out, and the server says so.
func TestSkillsPages(t *testing.T) {
	s := serving(t)
	many := func(name string, files int) map[string]string {
		all := map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: Many\n---\n"}
		for i := range files - 1 {
			all[fmt.Sprintf("references/%s%03d.md", strings.Repeat("x", 100), i)] = ""
		}
		return all
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.putSkill("skills", name, many(name, 512))
	}
	s.putSkill("skills", "too-many", many("too-many", 513))
	client := sdk.NewClient(&sdk.Implementation{Name: "skills", Version: "1"}, nil)
	withSkills(t, client)
	l := s.listen()
	c, err := client.Connect(t.Context(), l.transport(l.secret("ci")), nil)
	s.must(err)
	var names []string
	pages := 0
	for p := (skillsParams{}); ; pages++ {
		r, err := askSkills(t, c, "skills/list", p)
		s.must(err)
		for _, one := range r.Skills {
			names = append(names, one.URI)
			if len(one.Resources) != 512 {
				t.Error(one.URI, len(one.Resources))
			}
		}
		if p.Cursor = r.Next; p.Cursor == "" {
			break
		}
	}
	if strings.Join(names, " ") != "skill://skills/a/SKILL.md skill://skills/b/SKILL.md skill://skills/c/SKILL.md "+
		"skill://skills/d/SKILL.md skill://skills/e/SKILL.md" || pages < 1 {
		t.Error(pages, names)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(strings.Join(s.warned, "\n"), "too-many") {
		t.Error(s.warned)
	}
	s.must(c.Close())
}
