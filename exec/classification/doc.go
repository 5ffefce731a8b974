// Package classification answers: what kind of failure is this, and is it worth another try?
//
// The answer is data, config:error_classification, which a project may put its own over. Patterns are asked in their
// order, and the first that fits counts; if none does, default:
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
// An id is a letter and letters, digits, "_" and "-", 64 at most, and no two patterns have the same one. name and action
// may stand in a pattern, and what describes an item, "extends", "operators", "combinators" and "retry_policy_types"
// beside the patterns; they say nothing here. Any other key is an issue. A list is put over another as a whole, as all config is: a project that
// has patterns has all of them.
//
// # Categories
//
//	transient       it may work in a moment
//	rate_limited    the other side wants to be asked less often
//	quota           the other side wants to be paid, or asked much later
//	permanent       it won't work any better
//	limit_hit, budget, cancelled    a person must decide, or has decided
//
// Only transient, rate_limited and quota can be retryable.
//
// # Conditions
//
// A failure is an object: status_code, error.type, error.code, error.message, cancelled, and other facts that the caller
// knows. A condition is {any: […]}, {all: […]} or {not: …} of conditions, or looks at one place in it:
//
//	{path: error.message, op: regex, value: "timed? out"}
//
//	eq, ne             the same value, or another; eq if nothing is said
//	gt, gte, lt, lte   both are numbers, or both texts, and stand so to each other
//	in                 one of the list in value
//	contains, regex    a text with value in it, or with a match of value, whatever its case
//	exists             anything but null; without a value
//
// What isn't there is null, which is equal to null alone. A regex is one of package regexp.
//
// # How long to wait
//
//	exponential   base · multiplier^n seconds after the try n, which counts from 0, and max at most; multiplier is 2 and
//	              max 120 if nothing is said
//	fixed         delay seconds
//	use_header    what the other side says, at most a day, else as in fallback, which is one of these; header, if it is
//	              there, is retry-after
//	none          there is no other try
//
// max_retries of a policy is how many tries follow the first at most. What is retryable has a policy other than none, and
// the rest none. Seconds lie between 0 and 86,400.
//
// # Limits
//
// 256 patterns; conditions nest 16 deep, and there are 2,000 at most; a text to look for has 1,000 bytes. Of a message the
// first 4,096 bytes are looked at.
package classification
