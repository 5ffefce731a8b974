// Package classification answers: what kind of failure is this, and is it worth another try?
//
// The answer is data: config:error_classification, which a project may override. The first pattern that matches a
// failure counts; if none does, default:
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
// another name of the failures that match, by which hooks know them. A pattern may also have action; beside the
// patterns there may be the fields of an item, "operators", "combinators" and "retry_policy_types". They have no
// effect. Any other key is an error. The patterns of several files are merged by their ids (package merge): a project
// replaces those that it names, and its own come last, or it has "extends: none" and all of them.
//
// # Categories
//
//	transient       may work in a moment
//	rate_limited    the service wants fewer requests
//	quota           the service wants to be paid, or asked much later
//	permanent       won't work later either
//	limit_hit, budget, cancelled    a person must decide, or has decided
//
// Only transient, rate_limited and quota can be retryable.
//
// # Conditions
//
// A failure is an object: status_code, error.type, error.code, error.message, cancelled, and whatever else the caller
// knows. match is a condition about it (package condition):
//
//	{path: error.message, op: regex, value: "timed? out"}
//	'status_code == 429 or error.type in ["RateLimitError"]'
//
// # How long to wait
//
//	exponential   base · multiplier^n seconds after try n, counted from 0, at most max; by default multiplier is 2
//	              and max 120
//	fixed         delay seconds
//	use_header    what the service asks for, at most a day; else as in fallback, which is one of these; header, if
//	              present, is retry-after
//	none          there is no other try
//
// max_retries of a policy limits the tries after the first. A retryable failure has a policy other than none, and only
// such a one. Seconds are between 0 and 86,400.
//
// # Limits
//
// 256 patterns. Of a message only the first 4,096 bytes are searched.
package classification
