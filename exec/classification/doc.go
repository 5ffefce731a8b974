// Package classification classifies failures and defines their retries.
//
// The mapping is data: config:error_classification, which a project may override. The first pattern that matches a
// failure decides; if none does, default:
//
//	schema_version: "1.0.0"
//	patterns:
//	  - id: http_429
//	    category: rate_limited
//	    retryable: true
//	    match: {any: [{path: status_code, value: 429}, {path: error.type, op: in, value: [RateLimitError]}]}
//	    retry_policy: {type: use_header, header: retry-after, fallback: {type: exponential, base: 1, max: 60}}
//	default: {category: permanent, retryable: false, retry_policy: {type: none}}
//
// An id is a letter and then letters, digits, "_" and "-", 64 characters at most; no two patterns share one. name is
// another name for matching failures, for hooks. A pattern may also have action; next to the
// patterns there may be the fields of an item, "operators", "combinators" and "retry_policy_types". They have no
// effect. Any other key is an error. The patterns of several files are merged by their ids (package merge): a project
// replaces those that it names, and its own come last, or it has "extends: none" and all of them.
//
// # Categories
//
//	transient       may work in a moment
//	rate_limited    the service requires fewer requests
//	quota           the service requires payment, or a much later retry
//	permanent       won't work later either
//	limit_hit, budget, cancelled    a person must decide, or has decided
//
// Only transient, rate_limited and quota can be retryable.
//
// # Conditions
//
// A failure is an object: status_code, error.type, error.code, error.message, cancelled, and other members that the
// caller sets. match is a condition on it (package condition):
//
//	{path: error.message, op: regex, value: "timed? out"}
//	'status_code == 429 or error.type in ["RateLimitError"]'
//
// # Waits
//
//	exponential   base · multiplier^n seconds after try n, counted from 0, at most max; by default multiplier is 2
//	              and max 120
//	fixed         delay seconds
//	use_header    the wait that the service asks for, at most a day; otherwise that of fallback; header, if
//	              present, is retry-after
//	none          no retry
//
// max_retries of a policy limits the tries after the first. Exactly retryable failures have a policy other
// than none. Seconds are between 0 and 86,400.
//
// # Limits
//
// At most 256 patterns are allowed. Conditions see only the first 4,096 bytes of a message.
//
// # How a failure goes through here
//
// Read parses the merged config into Rules (reader.pattern, class, policy, condition). Rules.Of finds the first
// pattern that matches a failure and returns its Class, and Policy.Wait returns the wait before each retry.
package classification
