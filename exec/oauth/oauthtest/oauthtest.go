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
	server := &Server{TB: t, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	server.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		server.mu.Lock()
		server.Asked = append(server.Asked, r.Method+" "+r.URL.Path)
		server.mu.Unlock()
		mux.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	server.Issuer = server.URL + "/as"
	server.Challenge = `Bearer resource_metadata="` + server.URL + `/meta", scope="tools"`
	mux.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		server.mu.Lock()
		good := server.Behind != nil && server.access != "" && r.Header.Get("Authorization") == "Bearer "+server.access
		server.mu.Unlock()
		if good {
			server.Behind.ServeHTTP(rw, r)
			return
		}
		if server.Open != nil && server.Open(r) {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		rw.Header().Set("WWW-Authenticate", server.Challenge)
		rw.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /.well-known/oauth-protected-resource", func(rw http.ResponseWriter, r *http.Request) {
		if server.Named == "" {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		server.JSON(rw, object{"resource": server.Named, "authorization_servers": []any{server.Issuer}},
			server.Resource)
	})
	mux.HandleFunc("GET /meta", func(rw http.ResponseWriter, r *http.Request) {
		server.JSON(rw, object{"resource": server.name(), "authorization_servers": []any{server.Issuer}},
			server.Resource)
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/as", func(rw http.ResponseWriter, r *http.Request) {
		server.JSON(rw, object{"issuer": server.Issuer, "authorization_endpoint": server.URL + "/authorize?tenant=a",
			"token_endpoint":        server.URL + "/token",
			"registration_endpoint": server.URL + "/register", "code_challenge_methods_supported": []any{"S256"},
			"authorization_response_iss_parameter_supported": true}, server.Metadata)
	})
	server.Register = func(rw http.ResponseWriter, r *http.Request) {
		var asked object
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked["token_endpoint_auth_method"] != "none" {
			t.Errorf("registered with %v, %v", asked, err)
		}
		server.mu.Lock()
		server.Clients++
		server.mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusCreated)
		asked["client_id"] = "client-1"
		json.NewEncoder(rw).Encode(asked)
	}
	mux.HandleFunc("POST /register", func(rw http.ResponseWriter, r *http.Request) { server.Register(rw, r) })
	mux.HandleFunc("GET /authorize", func(rw http.ResponseWriter, request *http.Request) {
		values := request.URL.Query()
		if values.Get("tenant") != "a" || values.Get("response_type") != "code" ||
			values.Get("resource") != server.name() ||
			values.Get("code_challenge_method") != "S256" || values.Get("scope") == "" {
			t.Errorf("the sign-in asks for %v", values)
		}
		server.mu.Lock()
		code := fmt.Sprintf("code-%d", len(server.codes))
		server.codes[code] = values
		server.mu.Unlock()
		back := url.Values{"code": {code}, "state": {values.Get("state")}, "iss": {server.Issuer}}
		if server.Callback != nil {
			server.Callback(back)
		}
		http.Redirect(rw, request, values.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	server.Token = server.Tokens
	mux.HandleFunc("POST /token", func(rw http.ResponseWriter, r *http.Request) { server.Token(rw, r) })
	return server
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
func (w *Server) Tokens(rw http.ResponseWriter, request *http.Request) {
	if err := request.ParseForm(); err != nil {
		w.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	refuse := func(code string) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(rw).Encode(object{"error": code, "error_description": "says the server"})
	}
	if request.Form.Get("resource") != w.name() || request.Form.Get("client_id") == "" {
		refuse("invalid_target")
		return
	}
	switch request.Form.Get("grant_type") {
	case "authorization_code":
		began := w.codes[request.Form.Get("code")]
		delete(w.codes, request.Form.Get("code"))
		sum := sha256.Sum256([]byte(request.Form.Get("code_verifier")))
		if began.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			began.Get("redirect_uri") != request.Form.Get("redirect_uri") {
			refuse("invalid_grant")
			return
		}
	case "refresh_token":
		if request.Form.Get("refresh_token") != w.Refresh {
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
