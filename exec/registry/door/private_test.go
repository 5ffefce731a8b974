package door_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/door"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// A work is what a registry has asked of its stores.
type work struct {
	sync.Mutex
	done []string
}

func (w *work) note(format string, args ...any) {
	w.Lock()
	defer w.Unlock()
	w.done = append(w.done, fmt.Sprintf(format, args...))
}

// taken returns what was done since it was last asked.
func (w *work) taken() []string {
	w.Lock()
	defer w.Unlock()
	done := w.done
	w.done = nil
	return done
}

// seenRows notes what is read and written.
type seenRows struct {
	rows.Store
	*work
}

func (s seenRows) View(ctx context.Context, look func(rows.Reader) error) error {
	s.note("view")
	return s.Store.View(ctx, func(in rows.Reader) error { return look(seenReader{in, s.work}) })
}

func (s seenRows) Update(ctx context.Context, change func(rows.Writer) error) error {
	s.note("update")
	return s.Store.Update(ctx, func(in rows.Writer) error { return change(seenWriter{in, s.work}) })
}

type seenReader struct {
	rows.Reader
	*work
}

func (s seenReader) Get(name string) ([]byte, error) {
	s.note("get %s", name)
	return s.Reader.Get(name)
}

func (s seenReader) Scan(prefix, after string) iter.Seq2[rows.Row, error] {
	s.note("scan %s", prefix)
	return s.Reader.Scan(prefix, after)
}

type seenWriter struct {
	rows.Writer
	*work
}

func (s seenWriter) Get(name string) ([]byte, error) { return seenReader{s.Writer, s.work}.Get(name) }

func (s seenWriter) Scan(prefix, after string) iter.Seq2[rows.Row, error] {
	return seenReader{s.Writer, s.work}.Scan(prefix, after)
}

// seenFiles notes which files are opened.
type seenFiles struct {
	blobs.Store
	*work
}

func (s seenFiles) Open(ctx context.Context, name string) (*blobs.File, error) {
	s.note("open %s", name)
	return s.Store.Open(ctx, name)
}

// ask sends a request with a token, and returns all of the answer that a stranger sees.
func (s *site) ask(method, path, token string, body []byte) string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	resp.Header.Del("Date")
	var header bytes.Buffer
	if err := resp.Header.Write(&header); err != nil {
		s.Fatal(err)
	}
	return fmt.Sprintf("%d\n%s\n%s", resp.StatusCode, header.String(), text)
}

// TestStrangers asks every route of the registry for a private name and for one that no one has: to strangers both are
// the same, down to the headers, and the registry does the same work.
func TestStrangers(t *testing.T) {
	did := new(work)
	s := newSiteOver(t, func(r rows.Store, f blobs.Store) (rows.Store, blobs.Store) {
		return seenRows{r, did}, seenFiles{f, did}
	})
	ctx := t.Context()
	ada, eve := s.session("ada"), s.session("eve")
	if _, err := ada.Claim(ctx, "acme", client.Claim{Visibility: client.Private}); err != nil {
		t.Fatal(err)
	}
	if _, err := ada.Claim(ctx, "open", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	const words = "---\nname: greet\ndescription: Greets people.\n---\n\nSay hello.\n"
	b := s.archiveOf("acme/base", "1.0.0", "skills/greet/SKILL.md", words,
		manifest.SignerKey{Public: keytest.Alice().Public()})
	v, err := ada.Publish(ctx, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ada.SetPublisher(ctx, "acme/base", client.PublisherChange{Add: &client.Binding{
		Issuer: "https://forge.example", Repository: "acme/base", RepositoryID: "1", OwnerID: "2", Workflow: "ci.yml",
		Ref: "refs/heads/main"}}); err != nil {
		t.Fatal(err)
	}
	hex := strings.TrimPrefix(v.Archive.String(), "blake3:")
	digest := func(name string) string {
		if name == "acme" {
			return hex
		}
		return strings.TrimPrefix(cas.Sum([]byte(name)).String(), "blake3:")
	}
	tokens := map[string]string{"no token": "", "another account": eve.Token}
	for label, token := range map[string]registry.Token{
		"another account, for it": {Account: "eve", Scopes: registry.Scopes, Names: []string{"acme/**", "qzvw/**"}},
		"another namespace": {Account: "ada", Scopes: []registry.Scope{registry.ScopeRead}, Names: []string{
			"open/**"}},
		"no scope read": {Account: "ada", Scopes: []registry.Scope{registry.ScopeStage}, Names: []string{"open/**"}},
	} {
		token.Label = label
		if tokens[label], _, err = s.AddToken(ctx, token); err != nil {
			t.Fatal(err)
		}
	}
	revoked, made, err := s.AddToken(ctx, registry.Token{Account: "ada", Label: "revoked", Scopes: registry.Scopes})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveToken(ctx, "ada", made.ID); err != nil {
		t.Fatal(err)
	}
	tokens["a revoked one"] = revoked

	_, checkpoint := s.get("/log/checkpoint", nil)
	s.get("/.well-known/ai-catalog.json", nil) // made once
	post := func(format string, args ...any) func(string) []byte {
		return func(name string) []byte {
			return []byte(strings.ReplaceAll(fmt.Sprintf(format, args...), "NAME", name))
		}
	}
	type route struct {
		method, path string
		body         func(name string) []byte
	}
	api := []route{
		{"POST", "/v1/publish", func(name string) []byte { return s.archive(name+"/base", "1.0.0") }},
		{"POST", "/v1/withdraw", post(`{"bundle":"NAME/base","version":"1.0.0"}`)},
		{"POST", "/v1/withdraw", post(`{"bundle":"NAME/base","version":"1.0.0","unpublish":true}`)},
		{"POST", "/v1/seen", func(name string) []byte {
			return []byte(strings.Replace(checkpoint, "registry.example/log", "registry.example/private/"+name, 1))
		}},
		{"GET", "/v1/bundles/NAME/base", nil},
		{"GET", "/v1/bundles/NAME/other", nil},
		{"GET", "/v1/search?q=NAME", nil},
		{"GET", "/v1/spaces/NAME", nil},
		{"POST", "/v1/spaces/NAME/changes", post(`{"settings":{"visibility":"public"}}`)},
		{"POST", "/v1/spaces/NAME/changes", post(`{"owner":{"account":"eve","action":"add"}}`)},
		{"GET", "/v1/publishers/NAME/base", nil},
		{"POST", "/v1/publishers/NAME/base", post(`{"remove":"0123456789ab"}`)},
		{"POST", "/v1/exchange", post(`{"bundle":"NAME/base","token":"a.b.c"}`)},
		{"POST", "/v1/staged", func(name string) []byte { return s.archive(name+"/base", "2.0.0") }},
		{"POST", "/v1/staged/s1", func(name string) []byte { return s.archive(name+"/base", "2.0.0") }},
		{"GET", "/v1/staged", nil},
		{"GET", "/v1/staged/NAME", nil},
		{"GET", "/v1/staged/NAME/archives/HEX", nil},
		{"POST", "/v1/staged/NAME/approve", post(`{"digest":%q}`, cas.Sum(nil))},
		{"POST", "/v1/staged/NAME/cosign", func(name string) []byte { return s.archive(name+"/base", "1.0.0") }},
		{"DELETE", "/v1/staged/NAME", nil},
		{"DELETE", "/v1/tokens/NAME", nil},
		{"POST", "/v1/tokens", post(`{"label":"x","scopes":["read"],"names":["NAME/**"]}`)},
		{"GET", "/v1/NAME", nil},
	}
	routes := []route{
		{"GET", "/private/NAME/registry.yaml", nil},
		{"HEAD", "/private/NAME/registry.yaml", nil},
		{"POST", "/private/NAME/registry.yaml", nil},
		{"GET", "/private/NAME/advisories.yaml", nil},
		{"GET", "/private/NAME/log/checkpoint", nil},
		{"GET", "/private/NAME/log/tile/0/000.p/3", nil},
		{"GET", "/private/NAME/log/tile/entries/000.p/3", nil},
		{"GET", "/private/NAME/index/NAME/base.yaml", nil},
		{"GET", "/private/NAME/archives/HEX", nil},
		{"GET", "/private/NAME/proofs/HEX.tlog-proof", nil},
		{"GET", "/private/NAME/documents/HEX", nil},
		{"GET", "/private/NAME/", nil},
		{"GET", "/private/NAME", nil},
		{"GET", "/private/open/../NAME/registry.yaml", nil},
		{"GET", "/private/open/%2e%2e/NAME/registry.yaml", nil},
		{"GET", "/index/../private/NAME/registry.yaml", nil},
		{"GET", "/index/%2e%2e/private/NAME/registry.yaml", nil},
		{"GET", "/private%2FNAME/registry.yaml", nil},
		{"GET", "/index/NAME/base.yaml", nil},
		{"GET", "/archives/HEX", nil},
		{"GET", "/proofs/HEX.tlog-proof", nil},
		{"GET", "/documents/HEX", nil},
		{"GET", "/bundles/NAME/base", nil},
		{"GET", "/.well-known/ai-catalog.json?NAME", nil},
		{"GET", "/.well-known/agent-skills/index.json?NAME", nil},
		{"GET", "/.well-known/agent-skills/NAME/base@1.0.0/greet/SKILL.md", nil},
		{"GET", "/private/NAME/.well-known/agent-skills/NAME/base@1.0.0/greet/SKILL.md", nil},
		{"GET", "/rotations/HEX.yaml", nil},
		{"GET", "/private/NAME/rotations/HEX.yaml", nil},
		{"GET", "/NAME", nil},
	}
	for _, r := range api {
		routes = append(routes, r, route{r.method, "/private/NAME" + r.path, r.body})
	}
	for who, token := range tokens {
		for _, r := range routes {
			var answers [2]string
			var works [2][]string
			for i, name := range []string{"acme", "qzvw"} {
				fill := strings.NewReplacer("NAME", name, "HEX", digest(name))
				var body []byte
				if r.body != nil {
					body = r.body(name)
				}
				did.taken()
				answers[i] = s.ask(r.method, fill.Replace(r.path), token, body)
				back := strings.NewReplacer(name, "NAME", digest(name), "HEX")
				answers[i] = back.Replace(answers[i])
				for _, step := range did.taken() {
					works[i] = append(works[i], back.Replace(step))
				}
			}
			if answers[0] != answers[1] {
				t.Errorf("%s: %s %s:\n%s\n%s", who, r.method, r.path, answers[0], answers[1])
			}
			if !slices.Equal(works[0], works[1]) {
				t.Errorf("%s: %s %s:\n%q\n%q", who, r.method, r.path, works[0], works[1])
			}
			if strings.Contains(answers[0], "Greets people.") {
				t.Errorf("%s: %s %s: %s", who, r.method, r.path, answers[0])
			}
		}
	}
	var asked []string
	for _, r := range routes {
		asked = append(asked, r.method+" "+r.path)
	}
	unasked(t, asked)
}

// recorder collects the patterns of routes.
type recorder struct {
	http.ServeMux
	patterns []string
}

func (r *recorder) Open(pattern string, handler http.Handler) {
	r.patterns = append(r.patterns, pattern)
	r.Handle(pattern, handler)
}

// nameless are the routes that say nothing of a namespace: accounts and their tokens, pages of people, and the public
// log. A claim must be refused (TestHiddenName of package registry).
var nameless = []string{"GET /registry.yaml", "GET /advisories.yaml", "GET /log/", "GET /metrics", "GET /{$}",
	"GET /v1/tokens", "GET /v1/whoami", "POST /v1/device", "POST /v1/token", "POST /v1/spaces/{name}"}

// unasked fails for each route of the door that isn't among those that were asked.
func unasked(t *testing.T, asked []string) {
	t.Helper()
	all := new(recorder)
	(&door.Door{}).Register(all)
	found := map[string]bool{}
	for _, text := range asked {
		method, path, _ := strings.Cut(text, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, pattern := all.Handler(r)
		found[pattern] = true
	}
	for _, pattern := range all.patterns {
		plain := strings.Replace(pattern, "/private/{private}/v1/", "/v1/", 1)
		path := strings.TrimPrefix(strings.TrimPrefix(plain, "GET "), "POST ")
		person := slices.ContainsFunc([]string{"/enrol", "/sign", "/account", "/device"}, func(p string) bool {
			return strings.HasPrefix(path, p)
		})
		if !found[pattern] && !person && !slices.Contains(nameless, plain) {
			t.Errorf("%s was not asked", pattern)
		}
	}
	if len(all.patterns) < 60 {
		t.Errorf("the door has %d routes", len(all.patterns))
	}
}

// TestReaders: with a token that may see it, a private namespace is read as any other, and only the reader's own cache
// keeps what it sent.
func TestReaders(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	ada := s.session("ada")
	space, err := ada.Claim(ctx, "acme", client.Claim{Visibility: client.Private})
	if err != nil || !space.Private {
		t.Fatalf("%+v, %v", space, err)
	}
	b := s.archive("acme/base", "1.0.0")
	// At the address of the namespace, as rye.yaml has it.
	below := &client.Session{URL: s.url + "/private/acme", Token: ada.Token, Client: ada.Client}
	v, err := below.Publish(ctx, bytes.NewReader(b), int64(len(b)))
	if err != nil || !v.Private {
		t.Fatalf("%+v, %v", v, err)
	}
	secret, made, err := s.AddToken(ctx, registry.Token{Account: "ada", Label: "reader",
		Scopes: []registry.Scope{registry.ScopeRead}, Names: []string{"acme/**"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, immutable := range map[string]bool{"registry.yaml": false, "advisories.yaml": false,
		"log/checkpoint": false, "log/tile/0/000.p/2": true, "index/acme/base.yaml": false,
		client.ArchiveFile(v.Archive): true, client.ProofFile(v.Archive): false} {
		read := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
		resp, body := s.get("/private/acme/"+path, read)
		if resp.StatusCode != 200 || body == "" || resp.Header.Get("Vary") != "Authorization" ||
			resp.Header.Get("Cache-Control") != "private, no-cache" {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, resp.Header)
		}
		if binary := resp.Header.Get("Content-Type") == "application/octet-stream"; binary != immutable {
			t.Errorf("%s: %v", path, resp.Header)
		}
		again, body := s.get("/private/acme/"+path, func(r *http.Request) {
			read(r)
			r.Header.Set("If-None-Match", resp.Header.Get("ETag"))
		})
		if again.StatusCode != 304 || body != "" {
			t.Errorf("%s again: %d", path, again.StatusCode)
		}
	}
	reader := &client.Session{URL: s.url, Token: secret, Client: ada.Client}
	if hits, err := reader.Search(ctx, "greets"); err != nil || len(hits) != 1 || !hits[0].Private {
		t.Errorf("%+v, %v", hits, err)
	}
	if info, err := reader.Bundle(ctx, "acme/base"); err != nil || len(info.Versions) != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	// What has changed since the last version is compared with its private archive.
	for _, session := range []*client.Session{ada, below} {
		next := s.archive("acme/base", "1.0.1")
		p, err := session.Preview(ctx, bytes.NewReader(next), nil, bundle.VerifyOptions{Now: noon})
		if err != nil || p.Last != "1.0.0" {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if _, err := ada.Publish(ctx, bytes.NewReader(b[:10]), 10); err == nil {
		t.Error("published")
	}
	if err := s.RemoveToken(ctx, "ada", made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Bundle(ctx, "acme/base"); fault.CodeOf(err) != fault.AuthFailed {
		t.Errorf("a token that was removed: %v", err)
	}
	visitor := &client.Session{URL: s.url + "/private/acme", Client: web.New(web.Options{})}
	if hits, err := visitor.Search(ctx, "greets"); err != nil || len(hits) != 0 {
		t.Errorf("%+v, %v", hits, err)
	}
	_, text := s.get("/metrics", nil)
	if strings.Contains(text, "acme") || !strings.Contains(text, "ryed_private_logs 1") {
		t.Error(text)
	}
}
