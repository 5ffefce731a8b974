package web

import (
	"context"
	"net/http"
)

// Transport makes single requests for a protocol of its own, by the client's rules on where a name may lead, with its
// proxies and authorities, and its times to connect and to the end of the header lines. It follows no redirect: the
// http.Client before it does, and no such step leads further inside than the one before. Schemes, and limits on
// bodies, are the protocol's.
func (c *Client) Transport() http.RoundTripper { return transport{c} }

type transport struct{ *Client }

// stepKey is the context's key of the *way that led to a response.
type stepKey struct{}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	w := t.start(req.URL)
	if from := req.Response; from != nil && from.Request != nil {
		if before, ok := from.Request.Context().Value(stepKey{}).(*way); ok {
			w = &way{from: before.at, at: req.URL, home: before.home, most: before.most, steps: before.steps + 1}
		}
	}
	resp, err := t.request(req, w)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, w.error(t.unnamed(w, err))
	}
	// The client gives this to the request of the next step.
	resp.Request = req.WithContext(context.WithValue(req.Context(), stepKey{}, w))
	return resp, nil
}
