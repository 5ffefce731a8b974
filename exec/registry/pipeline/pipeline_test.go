package pipeline

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A site is an issuer, which serves its keys and signs whatever it is asked to.
type site struct {
	testing.TB
	server *httptest.Server
	mu     sync.Mutex
	keys   map[string]*rsa.PrivateKey // those that it shows
	reads  int                        // of its keys
	now    time.Time
}

func newKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, keys: map[string]*rsa.PrivateKey{"one": newKey(t)}, now: noon}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"issuer": s.server.URL, "jwks_uri": s.server.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reads++
		var keys []map[string]string
		for id, k := range s.keys {
			keys = append(keys, map[string]string{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": id,
				"n": encode(k.N.Bytes()), "e": encode(big.NewInt(int64(k.E)).Bytes())})
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	})
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

const origin = "https://registry.example"

func (s *site) issuers(shape Shape) *Issuers {
	return &Issuers{List: []Issuer{{s.server.URL, shape}}, Audience: []string{origin}, Web: web.New(web.Options{}),
		Now: func() time.Time { return s.now }}
}

// sign signs claims with a key, as "one" without another name.
func (s *site) sign(name string, k *rsa.PrivateKey, claims map[string]any) string {
	s.Helper()
	head, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": name})
	if err != nil {
		s.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		s.Fatal(err)
	}
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	if err != nil {
		s.Fatal(err)
	}
	return text + "." + encode(signature)
}

// gitHubClaims are those of a run on GitHub, with changes; a nil value leaves one out.
func (s *site) gitHubClaims(changes map[string]any) map[string]any {
	claims := map[string]any{"iss": s.server.URL, "aud": origin, "jti": "run-1", "iat": s.now.Unix(),
		"nbf": s.now.Unix(), "exp": s.now.Add(5 * time.Minute).Unix(),
		"sub": "repo:acme/base:environment:release", "repository": "acme/base", "repository_id": "1234",
		"repository_owner_id": "56", "ref": "refs/tags/v1", "event_name": "push", "environment": "release",
		"workflow_ref":     "acme/base/.github/workflows/release.yml@refs/tags/v1",
		"job_workflow_ref": "acme/shared/.github/workflows/build.yml@refs/heads/main"}
	return changed(claims, changes)
}

func (s *site) gitLabClaims(changes map[string]any) map[string]any {
	_, host, _ := strings.Cut(s.server.URL, "://")
	claims := map[string]any{"iss": s.server.URL, "aud": origin, "jti": "job-1", "iat": s.now.Unix(),
		"exp": s.now.Add(5 * time.Minute).Unix(), "sub": "project_path:acme/base:ref_type:tag:ref:v1",
		"project_path": "acme/base", "project_id": "1234", "namespace_id": "56", "ref": "v1", "ref_type": "tag",
		"environment": "release", "environment_protected": "true", "pipeline_source": "push",
		"ci_config_ref_uri": host + "/acme/base//.gitlab-ci.yml@refs/tags/v1"}
	return changed(claims, changes)
}

func changed(claims, changes map[string]any) map[string]any {
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// TestIdentify: a run is what its issuer has signed, by ids that never change hands. Both spellings of a subject
// count.
func TestIdentify(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		shape  Shape
		claims map[string]any
		want   Run
	}{
		"GitHub": {GitHub, s.gitHubClaims(nil), Run{Workflow: ".github/workflows/release.yml", Environment: "release",
			Ref: "refs/tags/v1", Token: "run-1"}},
		"GitHub, by ids": {GitHub, s.gitHubClaims(map[string]any{"sub": "repo:acme@56/base@1234:ref:refs/tags/v1",
			"environment": nil}), Run{Workflow: ".github/workflows/release.yml", Ref: "refs/tags/v1", Token: "run-1"}},
		"GitHub, another subject": {GitHub, s.gitHubClaims(map[string]any{"sub": "repository_owner:acme"}),
			Run{Workflow: ".github/workflows/release.yml", Environment: "release", Ref: "refs/tags/v1",
				Token: "run-1"}},
		"GitLab": {GitLab, s.gitLabClaims(nil), Run{Workflow: ".gitlab-ci.yml", Environment: "release",
			Ref: "refs/tags/v1", Token: "job-1"}},
		"GitLab, a branch": {GitLab, s.gitLabClaims(map[string]any{"ref": "main", "ref_type": "branch",
			"environment_protected": "false", "ci_config_ref_uri": strings.TrimPrefix(s.server.URL, "http://") +
				"/acme/base//.gitlab-ci.yml@refs/heads/main"}), Run{Workflow: ".gitlab-ci.yml", Ref: "refs/heads/main",
			Token: "job-1"}},
	} {
		got, err := s.issuers(c.shape).Identify(t.Context(), s.sign("one", s.keys["one"], c.claims))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := c.want
		want.Issuer, want.Repository, want.RepositoryID, want.OwnerID = s.server.URL, "acme/base", "1234", "56"
		if want.Expires = got.Expires; *got != want || !got.Expires.Equal(noon.Add(5*time.Minute)) {
			t.Errorf("%s: %+v, want %+v", name, *got, want)
		}
	}
}

// TestForged: what an issuer hasn't signed for this registry, now, is refused, and so is a run for a pull request.
func TestForged(t *testing.T) {
	s := newSite(t)
	other := newSite(t)
	good := s.sign("one", s.keys["one"], s.gitHubClaims(nil))
	for name, c := range map[string]struct {
		token string
		says  string
	}{
		"nothing":      {"", "no token of an issuer"},
		"no token":     {"a.b.c", "no token of an issuer"},
		"not JSON":     {"a." + encode([]byte("[")) + ".c", "no token of an issuer"},
		"too long":     {good + strings.Repeat("A", 20000), "no token of an issuer"},
		"another key":  {s.sign("one", newKey(t), s.gitHubClaims(nil)), "signature"},
		"cut off":      {good[:len(good)-4], "signature"},
		"a stranger":   {other.sign("one", other.keys["one"], other.gitHubClaims(nil)), "doesn't know the issuer"},
		"a pretender":  {other.sign("one", other.keys["one"], s.gitHubClaims(nil)), "signature"},
		"no algorithm": {unsigned(s.gitHubClaims(nil)), "algorithm"},
	} {
		refuses(t, s, GitHub, name, c.token, c.says)
	}
	for name, c := range map[string]struct {
		changes map[string]any
		says    string
	}{
		"another audience": {map[string]any{"aud": "https://other.example"}, "it is for https://other.example"},
		"two audiences":    {map[string]any{"aud": []string{origin, "https://other.example"}}, "not for"},
		"no audience":      {map[string]any{"aud": nil}, "not for"},
		"ended":            {map[string]any{"exp": s.now.Add(-time.Minute).Unix()}, "expired"},
		"of tomorrow": {map[string]any{"iat": s.now.Add(time.Hour).Unix(), "nbf": nil,
			"exp": s.now.Add(65 * time.Minute).Unix()}, "later time"},
		"too long a life":       {map[string]any{"exp": s.now.Add(time.Hour).Unix()}, "at most 15m0s"},
		"no id":                 {map[string]any{"jti": nil}, "jti is missing"},
		"a pull request":        {map[string]any{"event_name": "pull_request"}, `"pull_request" never counts`},
		"a pull request target": {map[string]any{"event_name": "pull_request_target"}, "never counts"},
		"no event":              {map[string]any{"event_name": nil}, "never counts"},
		"a review of a request": {map[string]any{"event_name": "pull_request_review", "ref": "refs/pull/5/merge",
			"workflow_ref": "acme/base/.github/workflows/release.yml@refs/pull/5/merge"}, "neither a branch nor a tag"},
		"another repository": {map[string]any{"repository": "eve/base"}, "its subject is another repository"},
		"another owner": {map[string]any{"sub": "repo:acme@99/base@1234:ref:x"},
			"its subject is another repository"},
		"a workflow of others": {map[string]any{"workflow_ref": "eve/base/.github/workflows/x.yml@refs/tags/v1"},
			"its workflow is of another repository"},
		"a workflow of another ref": {map[string]any{
			"workflow_ref": "acme/base/.github/workflows/release.yml@refs/heads/eve"}, "of another ref"},
		"no repository id": {map[string]any{"repository_id": nil}, "repository's id is missing"},
		"a number":         {map[string]any{"repository_id": 1234}, "can't be read"},
	} {
		refuses(t, s, GitHub, name, s.sign("one", s.keys["one"], s.gitHubClaims(c.changes)), c.says)
	}
	for name, c := range map[string]struct {
		changes map[string]any
		says    string
	}{
		"a merge request": {map[string]any{"pipeline_source": "merge_request_event"}, "never counts"},
		"another project": {map[string]any{"project_path": "eve/base"}, "its subject is another project"},
		"neither":         {map[string]any{"ref_type": "merge"}, "neither a branch nor a tag"},
		"others' pipeline": {map[string]any{"ci_config_ref_uri": "gitlab.example/eve/x//.gitlab-ci.yml@refs/tags/v1"},
			"configuration is of another project"},
		"another ref":        {map[string]any{"ref": "v2"}, "of another ref"},
		"no owner":           {map[string]any{"namespace_id": nil}, "owner's id is missing"},
		"claims of GitHub's": {map[string]any{"project_id": 5}, "can't be read"},
	} {
		refuses(t, s, GitLab, "GitLab, "+name, s.sign("one", s.keys["one"], s.gitLabClaims(c.changes)), c.says)
	}
}

func unsigned(claims map[string]any) string {
	body, _ := json.Marshal(claims)
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(body) + "."
}

func refuses(t *testing.T, s *site, shape Shape, name, token, says string) {
	t.Helper()
	run, err := s.issuers(shape).Identify(t.Context(), token)
	if fault.CodeOf(err) != fault.AuthFailed || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %+v, %v, want %q", name, run, err, says)
	}
}

// TestOldKey: a key that the issuer shows no more doesn't count, and a new one does at once.
func TestOldKey(t *testing.T) {
	s := newSite(t)
	in := s.issuers(GitHub)
	old := s.keys["one"]
	if _, err := in.Identify(t.Context(), s.sign("one", old, s.gitHubClaims(nil))); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.keys = map[string]*rsa.PrivateKey{"two": newKey(t)}
	s.mu.Unlock()
	_, err := in.Identify(t.Context(), s.sign("one", old, s.gitHubClaims(nil)))
	if fault.CodeOf(err) != fault.AuthFailed {
		t.Errorf("a withdrawn key counts: %v", err)
	}
	if _, err := in.Identify(t.Context(), s.sign("two", s.keys["two"], s.gitHubClaims(nil))); err != nil {
		t.Errorf("a new key: %v", err)
	}
	if s.reads > 10 {
		t.Errorf("the keys were read %d times", s.reads)
	}
}

// TestAway: an issuer that doesn't answer, or that names another one, lets no one in.
func TestAway(t *testing.T) {
	s := newSite(t)
	token := s.sign("one", s.keys["one"], s.gitHubClaims(nil))
	s.server.Close()
	if _, err := s.issuers(GitHub).Identify(t.Context(), token); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": "http://127.0.0.1:1/keys"}`, s.server.URL)
	}))
	defer liar.Close()
	in := s.issuers(GitHub)
	in.List[0].URL = liar.URL
	claims := maps.Clone(s.gitHubClaims(nil))
	claims["iss"] = liar.URL
	_, err := in.Identify(t.Context(), s.sign("one", s.keys["one"], claims))
	if fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
}

// TestIssuerCheck: an issuer is one whose shape is known, at an address that no one can listen to.
func TestIssuerCheck(t *testing.T) {
	for _, good := range []Issuer{{"https://token.example", GitHub}, {"http://127.0.0.1:80", GitLab}} {
		if err := good.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []Issuer{{"https://token.example", "circle"}, {"http://token.example", GitHub}, {"", GitHub},
		{"http://127.0.0.1.example:80", GitLab}} {
		if err := bad.Check(); fault.CodeOf(err) != fault.Config {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// FuzzClaims: claims make a run that says everything, or nothing.
func FuzzClaims(f *testing.F) {
	s := newSite(f)
	for _, claims := range []map[string]any{s.gitHubClaims(nil), s.gitLabClaims(nil), {}} {
		b, err := json.Marshal(claims)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, lab bool) {
		shape := GitHub
		if lab {
			shape = GitLab
		}
		run, err := parse(shape, b)
		if (run == nil) == (err == nil) {
			t.Fatalf("%+v, %v", run, err)
		}
		if err == nil && (run.RepositoryID == "" || run.OwnerID == "" || run.Workflow == "" || run.Ref == "" ||
			run.Token == "") {
			t.Errorf("%+v", run)
		}
	})
}
