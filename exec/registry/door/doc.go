// Package door answers the HTTP requests of a registry's clients: it parses them, asks package exec/registry, and
// shows the answer. It decides nothing.
//
//	GET  /registry.yaml /index/… /archives/… /proofs/… /documents/… /log/…   the static files (package lock/registry)
//	GET  /private/NAME/…                 those of a private namespace, to tokens that may see it
//	GET  /.well-known/ai-catalog.json    the newest versions, as an AI catalogue (level Discoverable)
//	GET  /.well-known/agent-skills/index.json   the skills in them (Agent Skills Discovery 0.2.0)
//	GET  /.well-known/agent-skills/…     a skill that the index lists: SKILL.md, or a zip of its files
//	POST /v1/publish                     an archive; the answer is the published version
//	POST /v1/withdraw                    {bundle, version, unpublish}
//	POST /v1/seen                        a checkpoint of the log, or a proof with one, that a client has seen
//	GET  /v1/bundles/ID                  the versions of a bundle
//	GET  /v1/search?q=WORDS              bundles whose id or description has all words
//	GET  /v1/spaces/NAME                 a namespace and its owners
//	POST /v1/spaces/NAME                 {visibility}: claims it
//	POST /v1/spaces/NAME/changes         {owner} or {settings}: changes it, or stages the change
//	GET  /v1/publishers/ID               the pipelines that may publish a bundle
//	POST /v1/publishers/ID               {add} or {remove}: binds one, or ends a binding
//	POST /v1/exchange                    {bundle, token}: a token of the registry for the token of a pipeline's run
//	POST /v1/staged[/ID]                 an archive that waits for approval, alone or with what waits
//	GET  /v1/staged[/ID]                 what waits
//	GET  /v1/staged/ID/archives/HEX      an archive of it
//	POST /v1/staged/ID/approve           {digest}: approves what has this digest
//	POST /v1/staged/ID/cosign            an archive of the same manifest with more signatures
//	DELETE /v1/staged/ID                 ends it
//	GET  /v1/whoami                      the account and the token of the caller
//	GET  /v1/tokens                      the tokens of the account
//	POST /v1/tokens                      {label, scopes, names, expires}: makes one, and shows its secret once
//	DELETE /v1/tokens/ID                 ends one
//	GET  /metrics                        what was counted, in Prometheus' text form; with a token of its own
//	POST /v1/device, POST /v1/token      a machine logs in (RFC 8628): forms, and answers as OAuth has them
//
// The routes below /v1 stand below /private/NAME/v1, too, for clients that know the registry by that address; there a
// search finds what is in NAME alone. To strangers a private namespace is everywhere as a name that no one has.
//
// Pages are for people: / and /bundles/ID for everyone, /enrol for who has a link, /signin, /signup, and behind a
// passkey /account and /device. A change is a POST from a page of this registry (Origin) with the token of its
// session. Scripts and styles stand in the page, and the policy that it carries names their digests.
//
// Answers below /v1 are the objects that every door of rye shows: {"success":true,"data":…} or
// {"success":false,"error":{…}}.
//
// How a request goes through here: serve.Server checks address and rates, and calls the handler that Register has
// given it (public, api). api finds the caller by the token, calls the function of the route, and writes its answer or
// refusal.
package door
