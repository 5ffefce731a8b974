// Package policy answers: may these bytes be used under this name?
//
// A policy is a file, policy.yaml, that people write and rye edits: which keys there are, which names they
// vouch for, what is revoked. The user's policy (~/.ai) is the root; a project may have its own (.ai). Each is
// asked alone about the same verified signatures, and only what both allow is allowed: so a project's policy
// can forbid and never allow. Decide is the whole answer, and a pure function.
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
// It is YAML read strictly, as package yamltree says: nothing unknown, nothing twice, no second spelling of
// structure, and every text is the text that stands there, whatever YAML would make of it. An *yamltree.Error has
// the line and the column. All sections may be missing. The first line names the format; another one than policy/2
// is a *canon.VersionError.
//
//	keys       name → key (base64url), owner, not-before, expires. Days and seconds are UTC, as in "2027-01-31"
//	           and "2027-01-31T18:00:00Z"; at "expires" the key is void. One key has one name.
//	names      glob → keys (their names), threshold (1 to their number; 1), accept ([v2], or [v1, v2]),
//	           except (globs)
//	digests    raw digest or document id → tree, as (the one name it is admitted under), reason
//	revoked    "key:" and a fingerprint, or a digest → reason, date
//	lists      name → from, key (the name of the one that signs it), max-age (7d, 36h), stale (refuse, warn)
//	override   globs over protected names that a project may replace; counts in the root alone
//	inside     hosts, with a port if it isn't 443, to which addresses in projects may lead although they are on this
//	           machine or in a private network; counts in the root alone
//	grants     glob → permission patterns
//	exec       what execution must hold to (package floor), and secrets (name → globs)
//	ask        which calls are allowed, refused, or need an approval (package ask)
//
// A policy's id is the digest of its bytes without signature lines, comments and layout included.
//
// # Names
//
// One rule decides about a name: of those whose glob covers it the most particular one (package glob). Where two
// rules would be left, the policy is refused. If the rule excepts the name it is refused: no other rule is asked.
//
// # Decisions
//
// In this order: a revoked digest (raw, stripped, tree, document, any file of the tree) is refused; a list that
// must be fresh and isn't refuses everything; what was read from the binary, or is run with --dev, is admitted;
// what "digests" lists is admitted, a tool with other files only together with its tree; else the rule counts
// the distinct keys that it names, that signed, and that are valid now and not revoked. The time of a signature
// means nothing. What is missing from a request that a refusal could depend on refuses it.
//
// A signature of the first format counts where the rule accepts v1, and then for an item only to show it,
// unless a manifest that is admitted lists its digest.
//
// # Revocation lists
//
// A list revokes like "revoked". It counts for a policy that names it and the key that signed it. It is fresh
// until it expires and for max-age after it was issued, by our clock; what it revokes stays revoked when it is
// not. Accept takes no issue that is older than the last, or another of the same count, or far ahead. Counts
// are remembered per key.
//
// # Rotation
//
// A rotation puts one key in the place of another in one rule. It names all keys of the rule as it was before,
// so that steps come in order, and is signed by the threshold of those and by the new key. None is taken while a
// list must be fresh and isn't, or once its document is revoked.
//
// # Edits
//
// An edit makes a new policy. Format writes it in the layout of package yamltree, comments where they were. What an
// edit makes is read again like any other file, by the same rules.
package policy
