// Package oauth is the client for signing in to servers that require OAuth, such as those of the Model Context
// Protocol over HTTP. It stores the tokens as secrets.
//
// # How a sign-in goes through here
//
// Login.Run asks the server and its authorization server (discover, challenge), registers this program if need be
// (register), opens a port for the browser (listen), and exchanges the code for tokens (client.post). The caller
// stores the Grant as a secret. Secrets.Get returns its access token, and renews an old one first (renewed).
//
// # Signing in
//
// Login sends the server a client's first request. The server answers 401 and names its metadata (RFC 9728), or has
// them at the well-known address. The metadata name the authorization server, whose own metadata (RFC 8414, or OpenID
// Connect's) must be of that issuer and offer PKCE with S256. Login registers a client unless one is given (RFC 7591).
// The user opens an address in a browser; the answer comes to a port of this machine. It must have the state of this
// sign-in and, if the metadata promise one or the answer has one, the issuer (RFC 9207). Login exchanges the code for
// tokens that are valid for this server alone (RFC 8707).
//
// Every address must be https, or http on this machine. None may be further inside than the server itself, so that a
// server on the internet can't make this machine send requests to a private network. Registration and token requests
// follow no redirects. Answers have limits on size and time.
//
// # How a sign-in goes through here
//
// Login.Run finds the authorization server (discover, challenge), registers rye (register), waits for the callback
// (listen, listener.wait) and exchanges the code (client.post, Grant.take). Secrets.Get returns the access token, and
// renewed renews it with the refresh token under a lock.
//
// # The stored document
//
// The value of the secret is a JSON document, with the members in the order of Grant:
//
//	{"oauth": 1, "server": "https://mcp.example.com/mcp", "issuer": "https://auth.example.com", "token_endpoint": "…",
//	 "client_id": "…", "access_token": "…", "refresh_token": "…", "expires": "2026-11-26T12:00:00Z"}
//
// A tool with the secret gets only the access token. A token that has expired, or will within a minute, is renewed
// first, by one process at a time.
package oauth
