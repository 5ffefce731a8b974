// Package oauth signs in to servers that want OAuth, such as those of the Model Context Protocol over HTTP, and keeps
// the tokens as secrets.
//
// # How a sign-in goes through here
//
// Login.Run asks the server and its authorization server (discover, challenge), registers this program if need be
// (register), opens a port for the browser (listen), and exchanges the code for tokens (client.post). The caller
// stores the Grant as a secret. Secrets.Get returns its access token, and renews an old one first (renewed).
//
// # Signing in
//
// Login asks the server as a client would, and it answers 401 and names its metadata (RFC 9728), or has it at the
// well-known address. That names the authorization server, whose own metadata (RFC 8414, or OpenID Connect's) has to
// be of that issuer and has to offer PKCE with S256. A client that isn't known there is registered (RFC 7591). The
// user opens an address in a browser; the answer comes to a port of this machine, and is believed if it has the state
// of this sign-in and, where one is stated or promised, the issuer (RFC 9207). The code is exchanged for tokens that
// are for this server alone (RFC 8707).
//
// Every address has to be https, or http on this machine. None may lie further inside than the server itself: a server
// on the internet can't have this machine ask one of a private network. Registration and tokens follow no redirects.
// Answers are short and come in time, or are an error.
//
// # What is kept
//
// The value of the secret is a document in JSON, in the order of Grant:
//
//	{"oauth": 1, "server": "https://mcp.example.com/mcp", "issuer": "https://auth.example.com", "token_endpoint": "…",
//	 "client_id": "…", "access_token": "…", "refresh_token": "…", "expires": "2026-11-26T12:00:00Z"}
//
// A tool that is handed the secret gets the access token, and nothing else of it. One that is over, or will be within
// a minute, is renewed first, by one process at a time.
package oauth
