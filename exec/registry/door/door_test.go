package door_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/door"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/exec/serve"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A site is a registry that answers over HTTP.
type site struct {
	testing.TB
	*registry.Registry
	url   string
	rows  rows.Store
	files blobs.Store
	warns []string

	metrics *registry.Metrics
	now     time.Time // of registries with pages
	about   string    // the description of archives
}

func newSite(t testing.TB) *site {
	t.Helper()
	return newSiteOver(t, func(r rows.Store, f blobs.Store) (rows.Store, blobs.Store) { return r, f })
}

// newSiteOver returns a registry over the stores that over makes of new ones.
func newSiteOver(t testing.TB, over func(rows.Store, blobs.Store) (rows.Store, blobs.Store)) *site {
	t.Helper()
	s, dir := &site{TB: t, metrics: registry.NewMetrics()}, t.TempDir()
	var err error
	if s.rows, err = rows.OpenLocal(filepath.Join(dir, "rows"), nil); err != nil {
		t.Fatal(err)
	}
	if s.files, err = blobs.OpenLocal(filepath.Join(dir, "files"), nil); err != nil {
		t.Fatal(err)
	}
	s.rows, s.files = over(s.rows, s.files)
	if s.Registry, err = registry.Open(t.Context(), registry.Options{Rows: s.rows, Blobs: s.files,
		Name: "registry.example", LogKey: keytest.Seeded(1), IndexKey: keytest.Seeded(2),
		Now: func() time.Time { return noon }, TempDir: t.TempDir(), Metrics: s.metrics}); err != nil {
		t.Fatal(err)
	}
	server, err := serve.Listen(serve.Options{Listen: "127.0.0.1:0", Tokens: &serve.Tokens{}, Now: time.Now,
		Ready: func() error { return nil }, Warn: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	origin := strings.TrimSuffix(server.URL(""), "/")
	(&door.Door{Registry: s.Registry, Blobs: s.files, Origin: origin, Warn: func(err error) {
		s.warns = append(s.warns, err.Error())
	}, Metrics: s.metrics, Scraper: "ryem_secret"}).Register(server)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.rows.Close()); err != nil {
			t.Error(err)
		}
	})
	s.url = server.URL("")
	return s
}

// session returns a session of an account, which is made if need be; "" is one without a token.
func (s *site) session(account string) *client.Session {
	s.Helper()
	session := &client.Session{URL: s.url, Client: web.New(web.Options{})}
	if account == "" {
		return session
	}
	if _, err := s.AddAccount(s.Context(), account); err != nil {
		s.Fatal(err)
	}
	var err error
	if session.Token, _, err = s.AddToken(s.Context(), registry.Token{Account: account, Label: "test",
		Scopes: registry.Scopes}); err != nil {
		s.Fatal(err)
	}
	return session
}

func (s *site) archive(id, version string) []byte {
	s.Helper()
	return s.archiveOf(id, version, "a.md", id+version, manifest.SignerKey{Public: keytest.Alice().Public()})
}

// archiveOf makes an archive with one file, which carries these keys.
func (s *site) archiveOf(id, version, name, text string, keys ...manifest.SignerKey) []byte {
	s.Helper()
	var store cas.Memory
	info, err := store.Put(s.Context(), cas.Blob, strings.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: id, Version: version,
		Description: cmp.Or(s.about, "Greets people.")}, []manifest.File{{Path: name, Digest: info.Digest,
		Size: info.Size, Mode: cas.File}})
	if err == nil {
		err = list.Sign(keytest.Alice(), noon)
	}
	var b bytes.Buffer
	if err == nil {
		err = archive.Write(s.Context(), &b, body, list.Signatures, &store, keys...)
	}
	if err != nil {
		s.Fatal(err)
	}
	return b.Bytes()
}

func wants(t testing.TB, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || code != "" && !strings.Contains(err.Error(), says) {
		t.Errorf("%v (%s), want %s, %q", err, fault.CodeOf(err), code, says)
	}
}

// TestSession asks every route as rye does.
func TestSession(t *testing.T) {
	s := newSite(t)
	ada, eve, visitor := s.session("ada"), s.session("eve"), s.session("")
	ctx := t.Context()
	b := s.archive("acme/base", "1.0.0")
	publish := func(by *client.Session, b []byte) (*client.Published, error) {
		return by.Publish(ctx, bytes.NewReader(b), int64(len(b)))
	}
	_, err := publish(visitor, b)
	wants(t, err, fault.AuthRequired, "the registry: this needs a token")
	if hint := fault.Of(err).Hint; !slices.Equal(hint, []string{"rye login " + s.url}) {
		t.Error(hint)
	}
	_, err = publish(ada, b)
	wants(t, err, fault.NotFound, "acme")
	if hint := fault.Of(err).Hint; !slices.Equal(hint, []string{"rye owner claim acme --registry " + s.url}) {
		t.Error(hint)
	}
	space, err := ada.Claim(ctx, "acme", client.Claim{})
	if err != nil || !slices.Equal(space.Owners, []string{"ada"}) {
		t.Fatalf("%+v, %v", space, err)
	}
	_, err = eve.Claim(ctx, "acme", client.Claim{})
	wants(t, err, fault.Conflict, "can't be claimed")
	v, err := publish(ada, b)
	if err != nil || v.Archive != cas.Sum(b) || v.Leaf != 1 || v.By != "ada" {
		t.Fatalf("%+v, %v", v, err)
	}
	_, err = publish(eve, b)
	wants(t, err, fault.Denied, "doesn't own")
	_, err = publish(ada, b[:100])
	wants(t, err, fault.CodeOf(err), "corrupt archive")
	add := &client.OwnerChange{Account: "eve", Action: client.AddOwner}
	space, err = ada.Change(ctx, "acme", client.Change{Owner: add})
	if err != nil || len(space.Owners) != 2 {
		t.Errorf("%+v, %v", space, err)
	}
	if space, err = visitor.Space(ctx, "acme"); err != nil || len(space.Owners) != 2 || space.Name != "acme" {
		t.Errorf("%+v, %v", space, err)
	}
	if _, err := publish(eve, s.archive("acme/base", "1.1.0")); err != nil {
		t.Error(err)
	}
	info, err := visitor.Bundle(ctx, "acme/base")
	if err != nil || len(info.Versions) != 2 || info.Versions[1].By != "eve" || len(info.Owners) != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = visitor.Bundle(ctx, "acme/none")
	wants(t, err, fault.NotFound, "acme/none")
	hits, err := visitor.Search(ctx, "greets")
	if err != nil || len(hits) != 1 || hits[0].Version != "1.1.0" {
		t.Errorf("%+v, %v", hits, err)
	}
	_, err = visitor.Search(ctx, "")
	wants(t, err, fault.Validation, "query")
	if v, err = ada.Withdraw(ctx, client.Withdrawal{Bundle: "acme/base", Version: "1.1.0"}); err != nil ||
		v.Yanked == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = visitor.Withdraw(ctx, client.Withdrawal{Bundle: "acme/base", Version: "1.1.0"})
	wants(t, err, fault.AuthRequired, "")

	me, err := ada.WhoAmI(ctx)
	if err != nil || me.Account != "ada" || me.Label != "test" || len(me.Scopes) != 4 {
		t.Fatalf("%+v, %v", me, err)
	}
	if all, err := ada.Tokens(ctx); err != nil || len(all) != 1 || all[0].ID != me.ID {
		t.Errorf("%+v, %v", all, err)
	}
	wants(t, eve.RemoveToken(ctx, me.ID), fault.NotFound, me.ID)
	for _, ask := range []func() error{
		func() error { _, err := visitor.WhoAmI(ctx); return err },
		func() error { _, err := visitor.Tokens(ctx); return err },
		func() error { return visitor.RemoveToken(ctx, me.ID) },
	} {
		wants(t, ask(), fault.AuthRequired, "no token")
	}
	if err := ada.RemoveToken(ctx, me.ID); err != nil {
		t.Error(err)
	}
	_, err = ada.WhoAmI(ctx)
	wants(t, err, fault.AuthFailed, "unknown or has expired")
	if len(s.warns) > 0 {
		t.Error(s.warns)
	}
}

func (s *site) get(path string, change func(*http.Request)) (*http.Response, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp, string(b)
}

// TestFiles: the static files are served with what caches need, and nothing else is.
func TestFiles(t *testing.T) {
	s := newSite(t)
	ada := s.session("ada")
	if _, err := ada.Claim(t.Context(), "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	b := s.archive("acme/base", "1.0.0")
	v, err := ada.Publish(t.Context(), bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for path, cached := range map[string]bool{
		"/registry.yaml": false, "/index/acme/base.yaml": false, "/log/checkpoint": false,
		"/log/tile/0/000.p/2": true, "/" + client.ArchiveFile(v.Archive): true, "/" + client.ProofFile(v.Archive): false,
	} {
		resp, body := s.get(path, nil)
		if resp.StatusCode != 200 || body == "" || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
			strings.Contains(resp.Header.Get("Cache-Control"), "immutable") != cached {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, resp.Header)
		}
		again, body := s.get(path, func(r *http.Request) { r.Header.Set("If-None-Match", resp.Header.Get("ETag")) })
		if again.StatusCode != 304 || body != "" {
			t.Errorf("%s again: %d", path, again.StatusCode)
		}
	}
	for _, path := range []string{"/nothing", "/index/acme/none.yaml", "/index/", "/rows/rows", "/keys/log.pem",
		"/index/../../rows/rows", "/index/acme/base.yaml?x=1", "/index/%2e%2e/%2e%2e/rows/rows", "/archives/con"} {
		if resp, body := s.get(path, nil); resp.StatusCode == 200 {
			t.Errorf("%s: %q", path, body)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"of another host": func(r *http.Request) { r.Host = "evil.example" },
		"of another page": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		if resp, _ := s.get("/registry.yaml", change); resp.StatusCode != 403 {
			t.Errorf("a request %s: %d", name, resp.StatusCode)
		}
	}
}

// TestBadRequests: what isn't a request of ours gets an error object, and never a stack trace.
func TestBadRequests(t *testing.T) {
	s := newSite(t)
	ada := s.session("ada")
	send := func(path, token, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	for name, c := range map[string]struct {
		path, token, body string
		status            int
	}{
		"no JSON":         {"/v1/withdraw", "Bearer " + ada.Token, "{", 400},
		"unknown members": {"/v1/withdraw", "Bearer " + ada.Token, `{"all":true}`, 400},
		"too much":        {"/v1/withdraw", "Bearer " + ada.Token, `{"bundle":"` + strings.Repeat("x", 70_000), 400},
		"no change":       {"/v1/spaces/acme/changes", "Bearer " + ada.Token, `[`, 400},
		"two changes": {"/v1/spaces/acme/changes", "Bearer " + ada.Token,
			`{"owner":{"account":"a","action":"add"},"settings":{}}`, 404},
		"no publisher":    {"/v1/publishers/acme/base", "Bearer " + ada.Token, `[`, 400},
		"no exchange":     {"/v1/exchange", "", `[`, 400},
		"no issuer":       {"/v1/exchange", "", `{"bundle":"acme/base","token":"a.b.c"}`, 403},
		"no answer":       {"/v1/staged/s1/approve", "Bearer " + ada.Token, `[`, 400},
		"nothing staged":  {"/v1/staged/s1/approve", "Bearer " + ada.Token, `{"digest":"` + cas.Sum(nil).String() + `"}`, 404},
		"a guessed token": {"/v1/withdraw", "Bearer ryer_AAAA", `{}`, 401},
		"another scheme":  {"/v1/withdraw", "Basic x", `{}`, 401},
		"no token":        {"/v1/withdraw", "", `{"bundle":"acme/base","version":"1.0.0"}`, 401},
		"another route":   {"/v1/all", "", `{}`, 404},
	} {
		status, body := send(c.path, c.token, c.body)
		if status != c.status {
			t.Errorf("%s: %d, %s", name, status, body)
		}
		var answer struct {
			Success bool
			Error   *fault.Object
		}
		if err := json.Unmarshal([]byte(body), &answer); status != 404 && (err != nil || answer.Success ||
			answer.Error == nil || answer.Error.Message == "") {
			t.Errorf("%s: %s", name, body)
		}
	}
	// A row that can't be read is the server's own trouble: the client learns nothing of it.
	if err := s.rows.Update(t.Context(), func(in rows.Writer) error {
		in.Put("version/acme/base@1.0.0", []byte(`{"size":"large"}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	resp, body := s.get("/v1/search?q=acme", nil)
	for _, path := range []string{"/v1/bundles/a%20b", "/v1/bundles/" + strings.Repeat("x", 600), "/v1/bundles/",
		"/v1/spaces/a%20b", "/v1/spaces/%00", "/v1/bundles/../x"} {
		if resp, body := s.get(path, nil); resp.StatusCode != 404 {
			t.Errorf("%s: %d, %s", path, resp.StatusCode, body)
		}
	}
	if resp.StatusCode != 500 || !strings.Contains(body, "the registry failed") || len(s.warns) != 1 ||
		strings.Contains(body, "json") || strings.Contains(body, "large") {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	// A server that isn't a registry.
	other := &client.Session{URL: s.url + "/none", Client: web.New(web.Options{})}
	_, err := other.WhoAmI(t.Context())
	wants(t, err, fault.Registry, "doesn't answer as a registry does")
	gone := &client.Session{URL: "http://127.0.0.1:1", Client: web.New(web.Options{})}
	if _, err := gone.WhoAmI(t.Context()); err == nil {
		t.Error("a registry that isn't there has answered")
	}
	if _, err := (&client.Session{URL: "ftp://x", Client: web.New(web.Options{})}).WhoAmI(t.Context()); err == nil {
		t.Error("an address of another scheme was asked")
	}
}

// TestCatalog: clients of other programs see the newest version of each bundle that isn't withdrawn, as soon as it is
// there.
func TestCatalog(t *testing.T) {
	s := newSite(t)
	ada := s.session("ada")
	read := func() (found []string) {
		t.Helper()
		answer, err := http.Get(s.url + "/.well-known/ai-catalog.json")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var document struct {
			SpecVersion string
			Host        struct{ DisplayName string }
			Entries     []struct{ Identifier, Type, URL, Version, DisplayName, Description string }
		}
		if err := json.NewDecoder(answer.Body).Decode(&document); err != nil || document.SpecVersion != "1.0" ||
			document.Host.DisplayName == "" || answer.Header.Get("Content-Type") != "application/ai-catalog+json" {
			t.Fatalf("%+v, %v, %v", document, answer.Header, err)
		}
		for _, e := range document.Entries {
			if e.Type != format.BundleType || e.Description != "Greets people." || e.DisplayName == "" {
				t.Errorf("%+v", e)
			}
			archive, err := http.Get(e.URL)
			if err != nil || archive.StatusCode != http.StatusOK {
				t.Errorf("%s: %v", e.URL, err)
			} else {
				archive.Body.Close()
			}
			found = append(found, e.Identifier+"@"+e.Version)
		}
		return found
	}
	if got := read(); len(got) != 0 {
		t.Error(got)
	}
	if _, err := ada.Claim(t.Context(), "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	publish := func(id, version string) {
		t.Helper()
		b := s.archive(id, version)
		if _, err := ada.Publish(t.Context(), bytes.NewReader(b), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	publish("acme/base", "1.0.0")
	publish("acme/tools/x", "1.0.0")
	publish("acme/base", "1.1.0")
	if got := strings.Join(read(), " "); !strings.HasSuffix(got, ":bundle:acme:tools:x@1.0.0") ||
		!strings.Contains(got, ":bundle:acme:base@1.1.0 ") {
		t.Error(got)
	}
	if _, err := ada.Withdraw(t.Context(), client.Withdrawal{Bundle: "acme/base", Version: "1.1.0"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(read(), " "); !strings.Contains(got, ":bundle:acme:base@1.0.0 ") {
		t.Error(got)
	}
}

// TestStaging: what waits for approval goes through the door as it is, and no one else sees it.
func TestStaging(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	ada, grace, eve := s.session("ada"), s.session("grace"), s.session("eve")
	if _, err := ada.Claim(ctx, "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	one := 1
	for _, change := range []client.Change{
		{Owner: &client.OwnerChange{Account: "grace", Action: client.AddOwner}},
		{Settings: &client.Settings{Approvals: &one, TrustedOnly: map[string]bool{"acme/ci": true}}},
	} {
		if _, err := ada.Change(ctx, "acme", change); err != nil {
			t.Fatal(err)
		}
	}
	space, err := ada.Space(ctx, "acme")
	if err != nil || space.Approvals != 1 || len(space.TrustedOnly) != 1 {
		t.Errorf("%+v, %v", space, err)
	}
	b := s.archive("acme/base", "1.0.0")
	staged, err := ada.Stage(ctx, "", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := staged.Shown(); err != nil || shown != staged.Digest {
		t.Errorf("%s, not %s, %v", shown, staged.Digest, err)
	}
	for _, c := range []struct {
		by   *client.Session
		want int
	}{{ada, 1}, {grace, 1}, {eve, 0}} {
		if all, err := c.by.AllStaged(ctx); err != nil || len(all) != c.want {
			t.Errorf("%v, %v, want %d", all, err, c.want)
		}
	}
	if _, err := eve.Staged(ctx, staged.ID); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if _, err := eve.StagedArchive(ctx, staged.ID, &staged.Versions[0]); err == nil {
		t.Error("a stranger reads the archive")
	}
	if _, err := s.session("").AllStaged(ctx); fault.CodeOf(err) != fault.AuthRequired {
		t.Error(err)
	}
	archive, err := grace.StagedArchive(ctx, staged.ID, &staged.Versions[0])
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(archive)
	archive.Close()
	if err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for _, way := range []string{"/staged/", "/v1/staged/" + staged.ID + "/archives/none"} {
		hex := strings.TrimPrefix(staged.Versions[0].Archive.String(), "blake3:")
		answer, err := http.Get(s.url + way + hex + ".tar.zst")
		if err != nil || answer.StatusCode == http.StatusOK {
			t.Errorf("%s: %v, %v", way, answer, err)
		}
	}
	if _, err := grace.Cosign(ctx, staged.ID, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Errorf("the same signatures: %v", err)
	}
	if done, err := grace.Approve(ctx, staged.ID, staged.Digest); err != nil || !done.Done {
		t.Fatalf("%+v, %v", done, err)
	}
	changed, err := ada.SetPublisher(ctx, "acme/ci", client.PublisherChange{Add: &client.Binding{Bundle: "acme/ci",
		Issuer: "https://forge.example", Repository: "acme/ci", RepositoryID: "1", OwnerID: "2", Workflow: "ci.yml",
		Ref: "refs/heads/main"}})
	if err != nil || changed.Staged == nil {
		t.Fatalf("%+v, %v", changed, err)
	}
	if shown, err := changed.Staged.Shown(); err != nil || shown != changed.Staged.Digest {
		t.Errorf("%s, not %s, %v", shown, changed.Staged.Digest, err)
	}
	if _, err := grace.Approve(ctx, changed.Staged.ID, changed.Staged.Digest); err != nil {
		t.Error(err)
	}
	if all, err := ada.Publishers(ctx, "acme/ci"); err != nil || len(all) != 1 || all[0].By != "ada" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := ada.Reject(ctx, staged.ID); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("what is released can't be rejected: %v", err)
	}
	_, err = eve.Exchange(ctx, client.Exchange{Bundle: "acme/ci", Token: "a.b.c"})
	if fault.CodeOf(err) != fault.Denied {
		t.Errorf("%v", err)
	}
}
