package web

import (
	"context"
	"io"
	"net/http"
)

// A Request is what Send sends.
type Request struct {
	Method  string
	Address string
	Token   string // as a bearer token; "" for none
	Type    string // the media type of the body
	Body    io.Reader
	Size    int64
}

// Send sends a request once, and returns the status and the answer of at most limit bytes. It follows no redirect and
// tries nothing again: a token goes to the host that the user has named, and a change is asked for once.
func (c *Client) Send(ctx context.Context, r Request, limit int64) (status int, answer []byte, err error) {
	response, way, err := c.send(ctx, r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(answer)) > limit {
		err = &LimitError{limit, int64(len(answer))}
	}
	if err != nil {
		return 0, nil, way.error(err)
	}
	return response.StatusCode, answer, nil
}

// Download sends a request as Send does, and returns what is answered as it arrives, at most limit bytes. Another
// status than 200 is an error.
func (c *Client) Download(ctx context.Context, r Request, limit int64) (io.ReadCloser, error) {
	response, way, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	switch {
	case response.StatusCode != http.StatusOK:
		err = &StatusError{Status: response.StatusCode}
	case response.ContentLength > limit:
		err = &LimitError{limit, response.ContentLength}
	default:
		return response.Body, nil
	}
	response.Body.Close()
	return nil, way.error(err)
}

// send sends a request. The time of the whole ends when the answer's body is closed.
func (c *Client) send(ctx context.Context, r Request) (*http.Response, *way, error) {
	u, err := parse(r.Address, c.options.PlainHTTP)
	if err != nil {
		return nil, nil, &Error{URL: Shown(r.Address), Err: err}
	}
	ctx, stop := context.WithTimeoutCause(ctx, c.limits.all, &SlowError{Everything, c.limits.all})
	way := c.start(u)
	header := http.Header{"User-Agent": {"rye"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}}
	if r.Token != "" {
		header.Set("Authorization", "Bearer "+r.Token)
	}
	request := &http.Request{Method: r.Method, URL: u, Header: header, ContentLength: r.Size}
	if r.Body != nil {
		header.Set("Content-Type", r.Type)
		request.Body = io.NopCloser(r.Body)
	}
	response, err := c.request(request.WithContext(ctx), way)
	switch {
	case err != nil:
		err = c.unnamed(way, err)
	case IsRedirect(response.StatusCode):
		response.Body.Close()
		err = &StatusError{Status: response.StatusCode}
	}
	if err != nil {
		stop()
		return nil, nil, way.error(err)
	}
	response.Body = stopping{response.Body, stop}
	return response, way, nil
}

// A stopping body ends its request's time when it is closed.
type stopping struct {
	io.ReadCloser
	stop context.CancelFunc
}

// Close implements io.Closer.
func (s stopping) Close() error {
	defer s.stop()
	return s.ReadCloser.Close()
}
