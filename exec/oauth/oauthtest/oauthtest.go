// Package oauthtest is a test server that requires an OAuth sign-in, together with its authorization server.
package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

type object = map[string]any

// A Server is a server that requires a sign-in at /mcp, together with its authorization server. Tests can make both
// misbehave by changing their answers.
type Server struct {
	testing.TB
	*httptest.Server
	Issuer string // in the metadata
	// Behind handles requests at /mcp with a valid token; nil: all are refused.
	Behind http.Handler

	// Changes to the answers.
	Resource, Metadata func(object)
	Callback           func(url.Values) // changes the callback
	Register, Token    http.HandlerFunc
	Challenge          string
	// reports whether a request at /mcp needs no token and gets 404; nil: none
	Open  func(*http.Request) bool
	Named string // the server's own name; "" for its address

	mu               sync.Mutex
	codes            map[string]url.Values // of sign-ins
	access           string                // the valid access token
	Refresh          string                // the valid refresh token
	Renewed, Clients int
	Asked            []string // requested paths
}

// New starts a server that stops when the test ends.
func New(t testing.TB) *Server {
	w := &Server{TB: t, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.Asked = append(w.Asked, r.Method+" "+r.URL.Path)
		w.mu.Unlock()
		mux.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	w.Issuer = w.URL + "/as"
	w.Challenge = `Bearer resource_metadata="` + w.URL + `/meta", scope="tools"`
	mux.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		good := w.Behind != nil && w.access != "" && r.Header.Get("Authorization") == "Bearer "+w.access
		w.mu.Unlock()
		if good {
			w.Behind.ServeHTTP(rw, r)
			return
		}
		if w.Open != nil && w.Open(r) {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		rw.Header().Set("WWW-Authenticate", w.Challenge)
		rw.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /.well-known/oauth-protected-resource", func(rw http.ResponseWriter, r *http.Request) {
		if w.Named == "" {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		w.JSON(rw, object{"resource": w.Named, "authorization_servers": []any{w.Issuer}}, w.Resource)
	})
	mux.HandleFunc("GET /meta", func(rw http.ResponseWriter, r *http.Request) {
		w.JSON(rw, object{"resource": w.name(), "authorization_servers": []any{w.Issuer}}, w.Resource)
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/as", func(rw http.ResponseWriter, r *http.Request) {
		w.JSON(rw, object{"issuer": w.Issuer, "authorization_endpoint": w.URL + "/authorize?tenant=a",
			"token_endpoint":        w.URL + "/token",
			"registration_endpoint": w.URL + "/register", "code_challenge_methods_supported": []any{"S256"},
			"authorization_response_iss_parameter_supported": true}, w.Metadata)
	})
	w.Register = func(rw http.ResponseWriter, r *http.Request) {
		var asked object
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked["token_endpoint_auth_method"] != "none" {
			t.Errorf("registered with %v, %v", asked, err)
		}
		w.mu.Lock()
		w.Clients++
		w.mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusCreated)
		asked["client_id"] = "client-1"
		json.NewEncoder(rw).Encode(asked)
	}
	mux.HandleFunc("POST /register", func(rw http.ResponseWriter, r *http.Request) { w.Register(rw, r) })
	mux.HandleFunc("GET /authorize", func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("tenant") != "a" || q.Get("response_type") != "code" || q.Get("resource") != w.name() ||
			q.Get("code_challenge_method") != "S256" || q.Get("scope") == "" {
			t.Errorf("the sign-in asks for %v", q)
		}
		w.mu.Lock()
		code := fmt.Sprintf("code-%d", len(w.codes))
		w.codes[code] = q
		w.mu.Unlock()
		back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {w.Issuer}}
		if w.Callback != nil {
			w.Callback(back)
		}
		http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	w.Token = w.Tokens
	mux.HandleFunc("POST /token", func(rw http.ResponseWriter, r *http.Request) { w.Token(rw, r) })
	return w
}

func (w *Server) name() string {
	if w.Named != "" {
		return w.Named
	}
	return w.URL + "/mcp"
}

// JSON sends an object after applying change.
func (w *Server) JSON(rw http.ResponseWriter, v object, change func(object)) {
	if change != nil {
		change(v)
	}
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(v); err != nil {
		w.Error(err)
	}
}

// Tokens is a correct token endpoint.
func (w *Server) Tokens(rw http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		w.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	refuse := func(code string) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(rw).Encode(object{"error": code, "error_description": "says the server"})
	}
	if r.Form.Get("resource") != w.name() || r.Form.Get("client_id") == "" {
		refuse("invalid_target")
		return
	}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		began := w.codes[r.Form.Get("code")]
		delete(w.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		if began.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			began.Get("redirect_uri") != r.Form.Get("redirect_uri") {
			refuse("invalid_grant")
			return
		}
	case "refresh_token":
		if r.Form.Get("refresh_token") != w.Refresh {
			refuse("invalid_grant")
			return
		}
		w.Renewed++
	}
	w.Refresh = fmt.Sprintf("refresh-%d", w.Renewed)
	w.access = fmt.Sprintf("access-token-%d", w.Renewed)
	w.JSON(rw, object{"access_token": w.access, "token_type": "Bearer", "expires_in": 3600,
		"refresh_token": w.Refresh}, nil)
}
