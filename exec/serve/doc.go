// Package serve is the one HTTP server of rye (decision 37): it listens, decides who may come in, and ends well. What
// is served is handed to it: package mcp at /mcp, later the gateway and a web page.
//
//	s, err := serve.Listen(serve.Options{Listen: "127.0.0.1:7337", Tokens: tokens, Ready: ready, Now: time.Now,
//		Warn: warn})
//	s.Handle("/mcp", token.Call, server.Handler())
//	err = s.Run(ctx)
//
// # Who comes in
//
// The address is a loopback one, or there is a certificate, or Options.Proxied says that a proxy is in front which has
// one. The header Host has to name this server, and Origin, which browsers send, has to be the same: so a page of
// another site reaches nothing, even if its name leads to this machine. No answer allows another origin to read it.
// Each request carries a token of package token with the scope that its path needs, as "Authorization: Bearer …" and
// nowhere else.
//
// GET /healthz is 200 as long as the process serves, GET /readyz is 200 while requests can be answered, else 503. They
// need no token and tell nothing more.
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
// Package token keeps the bearer tokens of rye serve: who may call the server, with which scopes and for which tenant.
//
//	store := token.OpenTokens(state, time.Now)
//	secret, err := store.Add(ctx, token.Token{Name: "ci", Scopes: []token.Scope{token.Call}})
//	t, err := store.Check(secret)
//
// A token is "rye_" and 256 random bits in base64url. The file tokens.json, which only its user may read, has the
// digest of each and never the token, so a copy of the file opens nothing. A token is found by comparing the digests
// of all in constant time.
package serve
