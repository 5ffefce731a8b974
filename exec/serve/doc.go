// Package serve is the one HTTP server of rye (decision 37): it listens, checks tokens and limits, and shuts down in
// order. Other packages add handlers: package mcp at /mcp.
//
//	s, err := serve.Listen(serve.Options{Listen: "127.0.0.1:7337", Tokens: tokens, Ready: ready, Now: time.Now,
//		Warn: warn})
//	s.Handle("/mcp", serve.Call, server.Handler())
//	err = s.Run(ctx)
//
// # How a request goes through here
//
// Listen opens the address, and Run serves its connections (bounded.Accept). The handler that Handle registered checks
// the address, the token and its scope (admit), counts the request against the limits (enter), and calls the handler
// of the path with the token in the context (CallerOf). Refuse writes a refusal. look cancels requests whose token has
// been removed.
//
// # Who comes in
//
// The address is a loopback one, or there is a certificate, or Options.Proxied is set because a proxy in front has
// one. The header Host has to name this server, and Origin, which browsers send, has to be the same: so a page of
// another site reaches nothing, even if its name leads to this machine. No answer allows another origin to read it.
// Each request carries a token of this package with the scope that its path needs, as "Authorization: Bearer …" and
// nowhere else.
//
// GET /healthz is 200 as long as the process serves, GET /readyz is 200 while requests can be answered, else 503. They
// need no token and show nothing else.
//
// # Bounds
//
// Headers, bodies, connections, requests at once and requests of a token in a minute are bounded, and so is the time
// in which a request and its body have to arrive. What exceeds them is 413, 429 or 503, the latter two with
// Retry-After. A refusal is the object {"success":false,"error":{…}} that every door of rye shows.
//
// # The end
//
// When the context of Run ends, the server takes no further request. Those that run have Options.Grace to end; then
// they are cancelled. A request of a token that was removed or has expired is cancelled within Options.Look.
//
// # Tokens
//
// Tokens are the bearer tokens of rye serve: who may call the server, with which scopes and for which tenant.
//
//	store := serve.OpenTokens(state, time.Now)
//	secret, err := store.Add(ctx, serve.Token{Name: "ci", Scopes: []serve.Scope{serve.Call}})
//	t, err := store.Check(secret)
//
// A token is "rye_" and 256 random bits in base64url. The file tokens.json, which only its user may read, has the
// digest of each and never the token, so a copy of the file opens nothing. A token is found by comparing the digests
// of all in constant time.
package serve
