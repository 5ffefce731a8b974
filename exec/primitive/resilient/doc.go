// Package resilient puts around any primitive what has an action survive a bad moment of somebody else's: a memory of
// answers, a breaker, a rate, other tries, a time for each of them, and a value where nothing helps.
//
//	p := &resilient.Primitive{Inner: inner, Rules: rules}
//
// What it does is said in the configuration of a chain, under resilience. As all configuration, that of the nearest link
// counts, as a whole. Without it the inner primitive does the action and that is all.
//
//	resilience:
//	  cache:    {ttl: 60, max_entries: 100}
//	  breaker:  {failures: 5, cooldown: 30, successes: 2}
//	  rate:     {per_second: 10, burst: 5}
//	  retry:    {max_attempts: 3, backoff: exponential, first: 1, longest: 120, jitter: 0, idempotent: false}
//	  timeout:  {each: 5}
//	  fallback: {value: {items: []}}
//
// Those are the values that hold where one isn't said; but max_attempts, each and value have to be, and without backoff, first and
// longest the waits are those of the classification (package classification). Times are seconds. They are asked in this order:
//
//	cache     only for a pure tool without secrets: an answer that is no older than ttl is given again, with what came to the
//	          sink. It is one of the same chain, parameters, grants, policies and set (primitive.Action.Identity); no failure,
//	          and no more than MaxAnswer bytes. There is one memory for each Primitive, gone with it, of MaxMemory bytes
//	breaker   after so many failures in a row that are transient, rate_limited or quota, nothing is begun for cooldown:
//	          *OpenError. Then as many actions as have to succeed are let through at once, and no more; if one of them
//	          fails it all begins anew. What is permanent is an answer, so whoever gives it is there
//	rate      each try takes one of burst, of which per_second come back; it waits, and if the time of the action doesn't
//	          allow that, *RateError
//	retry     up to max_attempts, 10 at most, of what the classification calls retryable, if nothing has happened, or
//	          doing it twice is as good as once: as the primitive knows, for a pure tool, or with idempotent. What the
//	          classification says of waiting counts, and what the tool says in place of all but what the other side asks for:
//	          first seconds and twice as long each time (exponential), or first seconds (linear), longest at most; jitter
//	          makes it longer by up to this part. A wait that the time doesn't allow isn't begun: the last answer counts.
//	          Once standard output was passed on nothing is tried again
//	timeout   each try has that long. The time of the action is for all of it, waits included
//	fallback  the value, in place of a failure after the last try, of OpenError and of RateError; not if it was cancelled,
//	          used more than it may, was refused, or has passed on standard output. The sink is told it as a line of JSON
//
// A primitive may have a retry in its own configuration: that is the same, and not there beside another one. More than 10
// attempts are 10 there.
//
// Breakers and rates are those of one address (primitive.Asker), or of a tool if there is none, and of one setting; they are
// shared by all actions of a Primitive, which is safe for many goroutines. The last MaxStates of them are remembered.
//
// # What is told
//
// A failure after several tries says so in its reason. Usage has attempts, waited_ms, cached and fallback, and of what the tries
// used the sum; what begins with max_ or peak is the most. Applied has a line for each thing that was done.
//
// For the classification a failure is {status_code, error: {type, code, message}, exit, signal, cancelled}, of what is known.
// What ended because its time was over is a TimeoutError.
package resilient
