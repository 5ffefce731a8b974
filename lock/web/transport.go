package web

import (
	"context"
	"net/http"
)

// Transport returns a round tripper for another protocol. It applies the client's rules on addresses, its proxies and
// authorities, and its timeouts up to the end of the header lines. The http.Client above it follows redirects, and no
// such step leads deeper inside than the one before. The protocol checks schemes and limits bodies.
func (c *Client) Transport() http.RoundTripper { return transport{c} }

type transport struct{ *Client }

// stepKey is the context's key of the *way of a response.
type stepKey struct{}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	started := t.start(req.URL)
	if from := req.Response; from != nil && from.Request != nil {
		if before, ok := from.Request.Context().Value(stepKey{}).(*way); ok {
			started = &way{from: before.at, at: req.URL, home: before.home, most: before.most, steps: before.steps + 1}
		}
	}
	resp, err := t.request(req, started)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, started.error(t.unnamed(started, err))
	}
	// The http.Client passes this on to the next step's request.
	resp.Request = req.WithContext(context.WithValue(req.Context(), stepKey{}, started))
	return resp, nil
}
