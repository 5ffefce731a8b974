// Package retry is a wrapper that lets actions survive failures of the services they call: with a cache, a circuit
// breaker, a rate limit, retries, a timeout for each try, and a fallback value.
//
//	p := &retry.Primitive{Inner: inner, Rules: rules}
//
// The configuration of a chain sets it under resilience. As for all configuration, the nearest link's entry counts,
// as a whole. Without it, the inner primitive runs the action once.
//
//	resilience:
//	  cache:    {ttl: 60, max_entries: 100}
//	  breaker:  {failures: 5, cooldown: 30, successes: 2}
//	  rate:     {per_second: 10, burst: 5}
//	  retry:    {max_attempts: 3, backoff: exponential, first: 1, longest: 120, jitter: 0, idempotent: false}
//	  timeout:  {each: 5}
//	  fallback: {value: {items: []}}
//
// These are the defaults; but max_attempts, each and value are required, and without backoff, first and longest the
// waits are those of the classification (package classification). Times are in seconds. The parts act in this
// order:
//
//	cache     only for a pure tool without secrets: an answer no older than ttl is returned again, with its output.
//	          It must be of the same chain, parameters, grants, policies and set (primitive.Action.Identity), no
//	          failure, and at most MaxAnswer bytes. Each Primitive has one cache of MaxMemory bytes, in memory
//	breaker   opens after so many consecutive failures that are transient, rate_limited or quota. For cooldown,
//	          calls fail with fault.Unavailable; then as many calls as must succeed are tried at once, and a failure
//	          opens it again. A permanent failure counts as an answer, since the service is up
//	rate      each try takes one of burst tokens, which return at per_second. It waits for one; if the action has no
//	          time for that, it fails with fault.RateLimited
//	retry     up to max_attempts, at most 10, if the classification calls the failure retryable, and nothing has
//	          happened yet or a repetition is harmless: by the primitive's word, for a pure tool, or with
//	          idempotent. A wait that the service asks for counts first, then the tool's, then the classification's.
//	          The tool's is first seconds, doubled each time (exponential) or not (linear), at most longest, plus up
//	          to the part jitter of it. A wait that the time doesn't allow isn't begun: the last answer counts.
//	          After standard output was passed on, there is no retry
//	timeout   limits each try. The time of the action limits all of it, waits included
//	fallback  is the value after the last failed try, or if breaker or rate refuse; not if the action was cancelled,
//	          exceeded a limit, was refused, or has passed on standard output. The sink gets it as a line of JSON
//
// A primitive may have a retry in its own configuration, which means the same and excludes this one. There, more
// than 10 attempts count as 10.
//
// Breakers and rates belong to an address (primitive.Asker), or to a tool without one, and to a setting. All
// actions of a Primitive share them; it is safe for concurrent use and remembers the last MaxStates of them.
//
// # Reports
//
// A failure after several tries says so in its reason. Usage has attempts, waited_ms, cached and fallback; other
// numbers are sums over the tries, or the largest if they begin with max_ or peak. Applied has a line for each
// step.
//
// # How an action goes through here
//
// Primitive.Run reads the settings (read) and makes a run. run.do answers from the cache (memory.get), or
// run.guarded asks the breaker (breaker.allow) and calls run.tries. Before each try, run.turn takes a token
// (bucket.take); run.try calls the inner primitive behind a tap; run.pause decides whether and when to try again.
// Then run.guarded reports to the breaker (breaker.done), memory.put keeps the answer, and run.instead gives the
// fallback.
//
// # Why no library
//
// A library could carry the breaker and the bucket, 115 lines of this package. A breaker of failsafe-go v0.9.8
// fails 4 of 24 tests: its clock is its own, and a try whose outcome says nothing keeps its turn for ever; it takes
// 6 allocations to make (ours none), and makes rye 0.4 MB larger. x/time/rate passes all tests as the bucket, with
// as many lines, one more allocation and twice the time for each token.
//
// # What the classification sees
//
// The classification sees a failure as {status_code, error: {type, code, message}, exit, signal, cancelled}, as far
// as known. A timeout is a TimeoutError.
package retry
