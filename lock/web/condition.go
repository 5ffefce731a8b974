package web

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// maxTag is the most bytes of an ETag. Servers need a few dozen; what is kept and sent again should be no larger.
const maxTag = 256

// A condition asks for a file unless it still has a tag; "" for a file that the caller doesn't have.
type condition struct{ tag string }

// GetIf is Get for a file that the caller may have. While the file still has this ETag the server sends no bytes, and
// the reader is nil. It returns the file's ETag, which is "" if it has none. An empty etag asks for the file in any
// case: an answer that it is unchanged is then an error.
func (c *Client) GetIf(ctx context.Context, address string, limit int64, etag string) (file io.ReadCloser, tag string,
	err error) {
	u, err := parse(address, c.options.PlainHTTP)
	if err != nil {
		return nil, "", &Error{URL: Shown(address), Err: err}
	}
	if !IsTag(etag) {
		etag = ""
	}
	f := c.fetch(ctx, u, limit)
	f.asks = &condition{etag}
	if err := f.open(); err != nil {
		f.stop()
		return nil, "", err
	}
	if tag = f.body.tag; f.body.unchanged {
		return nil, etag, f.Close()
	}
	return f, tag, nil
}

// answer returns the ETag of an answer. A server chooses it freely, and rye keeps it and sends it again: so it must
// have the form that it has to have.
func (c *condition) answer(resp *http.Response) (string, error) {
	if c == nil {
		return "", nil
	}
	tags := resp.Header.Values("ETag")
	switch {
	case resp.StatusCode != http.StatusOK && !c.unchanged(resp) || len(tags) == 0:
		return "", nil
	case len(tags) > 1 || !IsTag(tags[0]):
		return "", &AnswerError{errTag}
	case c.unchanged(resp) && strong(tags[0]) != strong(c.tag):
		return "", &AnswerError{errOtherTag}
	}
	return tags[0], nil
}

// unchanged reports whether an answer says that the caller has the file.
func (c *condition) unchanged(resp *http.Response) bool {
	return c != nil && c.tag != "" && resp.StatusCode == http.StatusNotModified
}

// strong returns a tag without the mark of weak ones, which servers may add and remove.
func strong(tag string) string { return strings.TrimPrefix(tag, "W/") }

// IsTag reports whether a text is an ETag of a sensible size: visible ASCII in quotes.
func IsTag(tag string) bool {
	inner, ok := strings.CutPrefix(strong(tag), `"`)
	inner, end := strings.CutSuffix(inner, `"`)
	return ok && end && len(tag) <= maxTag && strings.IndexFunc(inner, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"'
	}) < 0
}
