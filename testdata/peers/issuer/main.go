// Issuer is an issuer of tokens for the runs of pipelines, as GitHub's, for tests. It signs whatever it is asked to,
// and so forges: with a key that it never showed, with one that it has withdrawn, for another audience.
//
// It prints its address, and ends with its standard input.
//
//	GET  /.well-known/openid-configuration, /keys   as OpenID Connect has them
//	GET  /run?audience=ORIGIN                       a token for the run that was described last, as a run of GitHub
//	                                                Actions asks for it
//	POST /describe?key=current|old|unknown          the claims of that run that differ from the usual ones; the body is
//	                                                an object
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "issuer:", err)
		os.Exit(1)
	}
}

type issuer struct {
	url  string
	keys map[string]*rsa.PrivateKey

	mu      sync.Mutex
	key     string
	changes map[string]any
	runs    int
}

func run() error {
	s := &issuer{keys: map[string]*rsa.PrivateKey{}, key: "current"}
	for _, name := range []string{"current", "old", "unknown"} {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return err
		}
		s.keys[name] = k
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	s.url = "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": s.url, "jwks_uri": s.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.keys["current"].Public(), KeyID: "current",
			Algorithm: string(jose.RS256), Use: "sig"}}})
	})
	mux.HandleFunc("POST /describe", s.describe)
	mux.HandleFunc("GET /run", s.token)
	fmt.Println(s.url)
	return http.Serve(l, mux)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

func (s *issuer) describe(w http.ResponseWriter, r *http.Request) {
	var changes map[string]any
	if err := json.NewDecoder(r.Body).Decode(&changes); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key = r.URL.Query().Get("key"); s.keys[s.key] == nil {
		http.Error(w, "no such key", http.StatusBadRequest)
		return
	}
	s.changes = changes
}

func (s *issuer) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	now := time.Now()
	claims := map[string]any{"iss": s.url, "aud": r.URL.Query().Get("audience"), "jti": fmt.Sprint("run-", s.runs),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"sub": "repo:acme@56/base@1234:environment:release", "repository": "acme/base", "repository_id": "1234",
		"repository_owner_id": "56", "ref": "refs/tags/v1", "event_name": "push", "environment": "release",
		"workflow_ref": "acme/base/.github/workflows/release.yml@refs/tags/v1"}
	maps.Copy(claims, s.changes)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: s.keys[s.key]},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", s.key))
	if err == nil {
		var text string
		if text, err = jwt.Signed(signer).Claims(claims).Serialize(); err == nil {
			answer(w, map[string]any{"value": text})
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
