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
	u, err := parse(r.Address, c.options.PlainHTTP)
	if err != nil {
		return 0, nil, &Error{URL: Shown(r.Address), Err: err}
	}
	ctx, stop := context.WithTimeoutCause(ctx, c.limits.all, &SlowError{Everything, c.limits.all})
	defer stop()
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
	if err != nil {
		return 0, nil, way.error(c.unnamed(way, err))
	}
	defer response.Body.Close()
	if IsRedirect(response.StatusCode) {
		return 0, nil, way.error(&StatusError{Status: response.StatusCode})
	}
	answer, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(answer)) > limit {
		err = &LimitError{limit, int64(len(answer))}
	}
	if err != nil {
		return 0, nil, way.error(err)
	}
	return response.StatusCode, answer, nil
}
