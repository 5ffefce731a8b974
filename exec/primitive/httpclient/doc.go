// Package httpclient is the primitive that sends one HTTP request and returns the answer.
//
//	url       an http or https address; the part after "#" isn't sent
//	method    GET by default
//	headers   the request's headers, except those that control how a message is transferred
//	body      sent as JSON with POST, PUT and PATCH
//	timeout   limit on everything, in seconds
//	mode      sync: the answer is one body; stream: it is a stream of events, if the server sends one
//	output    json: a JSON body becomes its value; text: the body stays text, and the answer has more members
//	cut_after bytes after which a larger body is cut; only with output: text
//	auth      {type: bearer, token}, or {type: api_key, key, header}
//
// # How an action goes through here
//
// Client.Run reads the configuration (newRequest) and calls exchange.attempt. Each step sends one request over a
// connection whose address mayDial checks (step, transport); way.follow returns the target of a redirect.
// exchange.read reads the last answer: readWhole or readBeginning for a body, follows and tell for a stream of events.
// judge decides whether the action succeeded, and trouble describes a failure for package retry.
//
// # Result
//
//	{"status_code": 200, "headers": {"content-type": "application/json"}, "body": {"a": 1}}
//
// Header names are in lower case, and headers with the same name are joined with ", ". The body is its JSON value if
// package jcs accepts it, else text, with invalid UTF-8 as U+FFFD. A status of 400 and above is a failure, and its
// reason is the body's "error", "message" or "detail", or the beginning of its text. Without an answer the status is
// 0. The sink gets the bytes of a body, unchanged, if the body is complete and no failure.
//
// With output: text the value also has "url", the address that answered in the end, "bytes", the length of the body,
// and "truncated", whether the body was cut.
//
// In a stream, each complete event goes to the sink as one line of JSON. It has "event" and "id" if the server sent
// them, and "data" is a JSON value, or else text:
//
//	{"data":{"n":1},"event":"step","id":"7"}
//
// The body is then the list of the first events, at most MaxEvents with MaxKept bytes together; "stream_events_count"
// is the number of all events. Events are parsed as browsers do: several lines of data are one text, and an event
// without an empty line at its end is ignored. An answer other than text/event-stream is one body in this mode, too.
//
// # Where it may go
//
// Only to granted hosts and ports: a host without a port is granted on 80 and 443. The check of the address happens
// when it is dialled, after the last name lookup, by the ranges of package web:
//
//   - Any granted host may lead to a public address. With all of the network granted, no other address is allowed.
//   - An address of a private network must be granted itself, as a number, or belong to a granted name over https: the
//     certificate must be for the name, so a stranger's name can't borrow a server inside.
//   - An address of this machine or its link (127.0.0.1, 169.254.169.254) must be granted itself, or be localhost's if
//     that was granted. A name that resolves to one is refused.
//
// At most 5 redirects are followed, each to a granted host, never from https to http, and never further inside than an
// earlier step. To another scheme, host or port, only the headers Accept, Accept-Language and User-Agent are sent
// again, and only a GET, HEAD or OPTIONS is sent at all. A 303, and a 301 or 302 after a POST, is followed with a GET.
//
// The client uses no proxy, whatever the environment says, and has no cookies and no credentials but those of the
// configuration. It uses only HTTP/1.1, TLS 1.2 or later, and one connection for each request.
//
// # Tries
//
// The client sends a request once. Package retry reads the configuration's retry, and decides about another try by the
// failure's primitive.Trouble:
//
//	ConnectionError     no connection, or no complete answer; without a connection nothing has happened
//	CertificateError    the server's certificate is invalid
//	AnswerError         the answer is invalid or too large, or has a redirect that isn't followed
//	the status          with the wait of Retry-After. For 429, and for 503 with Retry-After, nothing has happened:
//	                    the status means that
//
// A repetition has no further effect for GET, HEAD, OPTIONS, PUT, DELETE, and with the header Idempotency-Key.
//
// # Limits
//
// The time limit is the shorter of the configuration's and the action's. The body or stream, and the output to the
// sink, may each have as many bytes as the action's output; a body that isn't streamed has at most MaxBody, an event
// MaxEvent. More ends the action. Headers have 64 KiB; connecting and TLS may take 15 s each. The client doesn't ask
// for an encoded body (gzip), and refuses one, since few encoded bytes can decode to many.
//
// No program runs and no file is touched, so the action complies with every level of the sandbox.
package httpclient
