// Package httpclient is the primitive that sends one HTTP request and gives the answer.
//
//	url       where to, http or https; what follows "#" isn't sent
//	method    GET if nothing is said
//	headers   the header lines, but for those that say how a message is carried
//	body      sent as JSON with POST, PUT and PATCH
//	timeout   seconds for everything
//	mode      sync: the answer is one body; stream: it is a stream of events, if the server sends one
//	output    json: a body that is JSON is what it says; text: it is text whatever it says, and the answer has more
//	          facts
//	cut_after bytes after which the body is cut, where more of it would be too much; with output: text
//	auth      {type: bearer, token}, or {type: api_key, key, header}
//
// # What comes out of it
//
//	{"status_code": 200, "headers": {"content-type": "application/json"}, "body": {"a": 1}}
//
// Names of header lines are in lower case, lines of one name are joined with ", ". The body is what its JSON says, if
// it is JSON as package jcs reads it, else text, with what isn't UTF-8 as U+FFFD. A status of 400 and above is a
// failure, and its reason what the body gives as "error", "message" or "detail", or the beginning of its text. An
// answer that never came has the status 0. The sink gets the bytes of a body, as they are, when it is whole and no
// failure.
//
// With output: text the body is text, and there are also "url", which the answer came from in the end, "bytes" of the
// body, and "truncated", whether it was cut.
//
// Of a stream, each event goes to the sink when it is whole, as one line of JSON. "event" and "id" stand in it if the
// server has said them, and data is what its JSON says, or text:
//
//	{"data":{"n":1},"event":"step","id":"7"}
//
// The body is then the list of the first MaxEvents of them that have MaxKept bytes together; "stream_events_count"
// says how many there were. Events are read as browsers read them: several lines of data are one text, an event that
// isn't ended by an empty line is none. An answer that isn't text/event-stream is one body in this mode, too.
//
// # Where it may go
//
// To hosts that were granted, on the ports that were: a host without a port is granted on 80 and 443. Whether an
// address is everybody's is seen when it is dialled, after the last question to the name service, by the ranges of
// package web:
//
//   - A public address is where any granted host may lead. With all of the network granted, nothing else is.
//   - An address of a private network is dialled if it was granted itself, as a number, or for a granted name over
//     https: the certificate has to be for the name, so a stranger's name can't borrow a server inside.
//   - An address of this machine or its link (127.0.0.1, 169.254.169.254) is dialled if it was granted itself, or for
//     localhost where that was. A name that resolves to one is refused.
//
// At most 5 redirects are followed, each to a granted host, never from https to http, and never further inside than a
// step before it was. To another scheme, host or port, no header line goes along but Accept, Accept-Language and
// User-Agent; and a request that isn't a GET, HEAD or OPTIONS by then isn't sent there at all. A 303, and a 301 or 302
// after a POST, is followed with a GET.
//
// No proxy is asked, whatever the environment says. There are no cookies, no credentials but those of the
// configuration, HTTP/1.1 alone, TLS 1.2 at least, and one connection for each request.
//
// # Tries
//
// It sends a request once. What a failure tells (primitive.Trouble) is for package resilient, which reads retry, and
// tries again:
//
//	ConnectionError     no connection, or no whole answer; nothing has happened if there was no connection
//	CertificateError    a server that can't show who it is
//	AnswerError         an answer that is no use, too large, or redirects where it isn't followed
//	the status          with what Retry-After asks for. Of 429, and of 503 with Retry-After, nothing has happened:
//	                    the server says so
//
// Doing it twice is as good as once for GET, HEAD, OPTIONS, PUT, DELETE, and with a header line Idempotency-Key.
//
// # Limits
//
// Time is that of the configuration or of the action, whichever is less. The body, or the stream, and the output to
// the sink, may each have as many bytes as the action's output, a body that isn't streamed MaxBody at most, and an
// event MaxEvent. What has more ends the action. Header lines have 64 KiB; 15 s to connect, and as many for TLS. An
// encoded body (gzip) isn't asked for, and is refused, since few of its bytes can be many.
//
// No program runs and no file is touched, so whatever level of the sandbox is asked for holds.
package httpclient
