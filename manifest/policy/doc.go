// Package policy decides whether bytes may be used under a name.
//
// A policy is a file, policy.yaml, that people write and rye edits. It lists keys, the names that they vouch for, and
// revocations. The user's policy (~/.ai) is the root; a project may have its own (.ai). Both get the same verified
// signatures, and only what both allow is allowed: so a project's policy can forbid but never allow. Decide is a pure
// function and the only decision.
//
// # How a call goes through here
//
// Parse reads a policy (package yamltree, then the read functions of each section). Decide calls Side.answer for the
// root and the project: revokedBy, stale and admits come first, then the most specific rule of package glob, and judge
// counts the signers. Answer.Reason gives the sentence for people. An edit (AddKey, SetRule, Revoke, Rotate …) changes
// a copy of the tree and parses it again; Format writes it, and Diff lists the changes.
//
// # The file
//
//	rye: policy/2
//
//	keys:
//	  alice: {key: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", owner: "Alice <alice@acme.example>"}
//	  bob:  # until the audit
//	    # from ticket 7
//	    key: "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"
//	    not-before: "2026-01-01"
//	    expires: "2027-01-01"
//
//	names:
//	  "**": {keys: [alice], except: ["rye/**"]}
//	  "acme/**": {keys: [alice, bob], threshold: 2}
//	  "tool:acme/legacy/*": {keys: [bob], accept: [v1, v2]}
//
//	digests:
//	  "blake3:2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213": {as: "tool:acme/fetch"}
//
//	revoked:
//	  "key:8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4": {reason: "laptop stolen", date: "2026-11-20"}
//
//	lists:
//	  acme: {from: "https://acme.example/revoked.yaml", key: alice, max-age: "7d", stale: refuse}
//
//	override:
//	  - "tool:rye/web/search"
//
//	inside:
//	  - bundles.acme.example
//
//	grants:
//	  "tool:acme/**": [rye.execute.tool.acme.fetch]
//
//	exec:
//	  floor: landlock
//	  network: [api.acme.example]
//	  secrets: {acme-token: ["tool:acme/**"]}
//
//	ask:
//	  refunds: {names: ["tool:acme/refund"], when: "params.amount > 100"}
//
//	advisories:
//	  "https://registry.example": {load: critical, call: high, max-age: "7d"}
//
// It is YAML read strictly (package yamltree): unknown fields and duplicate keys are errors, structure has one
// spelling, and every value is the text in the file, without YAML's types. A *yamltree.Error has the line and the
// column. All sections are optional. The first line names the format; any other than policy/2 is a
// *canon.VersionError.
//
//	keys       name → key (base64url), owner, not-before, expires. Days and seconds are UTC, as in "2027-01-31"
//	           and "2027-01-31T18:00:00Z"; at "expires" the key is invalid. One key has one name.
//	names      glob → keys (their names), threshold (1 to their number; 1), accept ([v2], or [v1, v2]),
//	           except (globs)
//	digests    raw digest or document id → tree, as (the one name it is admitted under), reason
//	revoked    "key:" and a fingerprint, or a digest → reason, date
//	lists      name → from, key (the name of its signing key), max-age (7d, 36h), stale (refuse, warn)
//	override   globs over protected names that a project may replace; counts in the root alone
//	inside     hosts, with a port if it isn't 443, on this machine or in a private network, that addresses in
//	           projects may use; counts in the root alone
//	grants     glob → permission patterns
//	exec       the limits of execution (package floor), and secrets (name → globs)
//	ask        which calls are allowed, refused, or need an approval (package ask)
//	advisories address of a registry → load and call (the least severity from which an advisory of the registry
//	           refuses to load or to call what is from a version of a bundle that it covers; low, medium, high or
//	           critical; at least one of the two), max-age, stale (refuse, warn)
//
// A policy's id is the digest of its bytes without signature lines, comments and layout included.
//
// # Names
//
// One rule decides about a name: the most specific of those whose glob covers it (package glob). A policy with two
// equally specific rules is invalid. If the rule excepts the name, the name is refused: no other rule applies.
//
// # Decisions
//
// In this order: a revoked digest (raw, stripped, tree, document, any file of the tree) is refused; a stale list that
// must be fresh refuses everything; an item from a bundle that came from a registry under "advisories" is refused if
// an advisory covers its version, or if those advisories must be fresh and are not; items of the binary and items run
// with --dev are admitted; digests listed in "digests" are admitted, a tool with other files only together with its
// tree; otherwise the rule counts the distinct keys that it names, that signed, and that are valid now and not
// revoked. The time of a signature has no effect. A request without a field that a refusal could depend on is refused.
//
// A signature of the first format counts where the rule accepts v1, and then for an item only to show it,
// unless an admitted manifest lists its digest.
//
// # Revocation lists
//
// A list revokes like "revoked". It counts for a policy that names it and the key that signed it. It is fresh
// until it expires and for max-age after it was issued, by our clock; its revocations remain when it is
// stale. Accept refuses an issue that is older than the last, has the same counter but differs, or is far ahead.
// Counters are remembered per key.
//
// # Rotation
//
// A rotation replaces one key by another in one rule. It names all keys that the rule had before,
// so that steps come in order, and is signed by the threshold of those and by the new key. It is refused while a
// list that must be fresh is stale, and after its document was revoked.
//
// # Edits
//
// An edit makes a new policy. Format writes it in the layout of package yamltree and keeps comments in their places.
// The result of an edit is parsed again like any other file, by the same rules.
package policy
