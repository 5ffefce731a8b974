// Package gateway is the HTTP API of rye serve for clients that speak RGP 1.0: every tool of the set, called by any
// program, behind one policy.
//
//	g := &gateway.Gateway{Host: h, Warn: warn}
//	g.Register(server)
//
// # How a call goes through here
//
// Package serve lets a request in whose token has the scope. Gateway.call reads the body (readOrder); made waits for
// its turn, finds the tool in the catalogue of the set (take, catalogOf), and has agenttools.Execute make the call:
// policies, schemas, approval, sandbox and audit log are those of every other door. result makes RGP's result of the
// outcome. Gateway.approve records a person's answer (host.Answer); the host makes the call, whose result it returns.
//
// # Routes
//
//	GET  /v1/health                  {"status":"ok"}; needs no token
//	GET  /v1/tools                   the tools, sorted by name                     scope call
//	GET  /v1/tools/NAME              one of them; 404                              call
//	POST /v1/tools/NAME:call         {"args":{…},"context":{…}} gives a result     call
//	POST /v1/approvals/TOKEN:approve the result of the approved call               approve
//	POST /v1/approvals/TOKEN:deny    {"denied":true,"token":TOKEN}; 404            approve
//	POST /v1/reload                  opens rye.lock as it is now                   admin
//
// A colon may be a slash. NAME is the tool's name for models (plan.ToolNames), its id or its ref. Whatever comes of a
// call, the answer is 200 with a result, whose error has one of RGP's twelve types (types); another status means that
// the request isn't one. The library's own tools are not offered, nor are those that only run others.
//
// Schemas and results of RGP are objects: what a tool of ours declares or returns as something else is the member
// "value". interface_hash is RGP's (hash.go); pack_set_version is the digest of rye.lock.
//
// # Who calls
//
// The tenant and the actor are those of the token. A context or header (X-RIG-Tenant-ID, X-RIG-Actor-ID) that names
// another is policy_blocked. request_id, or X-RIG-Correlation-ID, goes through to the result and the answer's header.
// An approval belongs to the tenant of the call: a token of another tenant finds none.
package gateway
