package httpclient

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/jcs"
)

// A request is a validated configuration.
type request struct {
	way
	time    time.Duration // limit on everything
	most    int64         // limit on the output in bytes
	stream  bool
	plain   bool  // output: text
	cut     int64 // cut the body after so many bytes; 0: a longer body is an error
	network sandbox.Network
}

// A way is one step of a request, of the original address or of a redirect.
type way struct {
	url    *url.URL
	method string
	header http.Header
	body   []byte
	steps  int
}

func wrong(format string, args ...any) error { return fault.New(fault.Validation, format, args...) }

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// newRequest reads an action. It doesn't rely on a valid configuration: it returns an error for one that it can't
// send.
func newRequest(action *primitive.Action, agent string) (*request, error) {
	object := action.Config
	raw, _ := object["url"].(string)
	address, err := address(raw)
	if err != nil {
		return nil, err
	}
	request := &request{way: way{url: address, method: text(object["method"], "GET"), header: http.Header{}},
		network: action.Sandbox.Network}
	if !slices.Contains(methods, request.method) {
		return nil, wrong("invalid method %q: expected one of %s", request.method, strings.Join(methods, ", "))
	}
	switch mode := text(object["mode"], "sync"); mode {
	case "sync":
	case "stream":
		request.stream = true
	default:
		return nil, wrong("invalid mode %q: expected sync or stream", mode)
	}
	switch output := text(object["output"], "json"); output {
	case "json":
	case "text":
		request.plain, request.cut = true, int64(min(max(number(object["cut_after"], 0), 0), MaxBody))
	default:
		return nil, wrong("invalid output %q: expected json or text", output)
	}
	if err := request.lines(object, agent); err != nil {
		return nil, err
	}
	if err := request.content(object["body"]); err != nil {
		return nil, err
	}
	request.limits(object, action.Sandbox.Limits)
	return request, check(request.network, address)
}

// lines sets the headers.
func (q *request) lines(object map[string]any, agent string) error {
	headers, _ := object["headers"].(map[string]any)
	for name, v := range headers {
		value, ok := v.(string)
		if !ok {
			return wrong("the header %q must be a string, not %T", name, v)
		}
		if err := q.set(name, value); err != nil {
			return err
		}
	}
	if auth, ok := object["auth"].(map[string]any); ok {
		var err error
		switch kind := text(auth["type"], ""); kind {
		case "bearer":
			err = q.credential("Authorization", "Bearer ", auth["token"])
		case "api_key":
			err = q.credential(text(auth["header"], "X-API-Key"), "", auth["key"])
		default:
			err = wrong("invalid auth type %q: expected bearer or api_key", kind)
		}
		if err != nil {
			return err
		}
	}
	accept := "*/*"
	if q.stream {
		accept = "text/event-stream"
	}
	for name, value := range map[string]string{"Accept": accept, "User-Agent": cmp.Or(agent, "rye")} {
		if q.header.Get(name) == "" {
			q.header.Set(name, value)
		}
	}
	// Without it net/http asks for gzip.
	q.header.Set("Accept-Encoding", "identity")
	return nil
}

// credential sets a required header. No error shows its value.
func (q *request) credential(name, before string, v any) error {
	secret, _ := v.(string)
	if secret == "" {
		return wrong("auth has no token or key")
	}
	return q.set(name, before+secret)
}

// carried lists the headers that control how a message is transferred. Only rye sets them.
var carried = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Expect", "Host", "Http2-Settings",
	"Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func (q *request) set(name, value string) error {
	key := http.CanonicalHeaderKey(name)
	switch {
	case name == "" || len(name) > 100 || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}):
		return wrong("invalid header name %q", clip(name))
	case slices.Contains(carried, key) || strings.HasPrefix(key, "Proxy-"):
		return wrong("the header %q can't be set: it controls how messages are transferred", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return wrong("the header %q contains a control character", name)
	case q.header[key] != nil:
		return wrong("the header %q is set twice", name)
	}
	q.header[key] = []string{value}
	return nil
}

// content encodes the body.
func (q *request) content(v any) error {
	if v == nil || q.method != "POST" && q.method != "PUT" && q.method != "PATCH" {
		return nil
	}
	var err error
	if q.body, err = jcs.Append(nil, v); err != nil {
		return wrong("the body: %v", err)
	}
	if q.header.Get("Content-Type") == "" {
		q.header.Set("Content-Type", "application/json")
	}
	return nil
}

func (q *request) limits(c map[string]any, l sandbox.Limits) {
	d := sandbox.DefaultLimits()
	if q.time = l.Wall; q.time <= 0 {
		q.time = d.Wall
	}
	if q.most = l.Output; q.most <= 0 {
		q.most = d.Output
	}
	// A number too large for a Duration is longer than any other limit.
	if seconds := number(c["timeout"], 30) * float64(time.Second); seconds < math.MaxInt64/2 {
		q.time = min(q.time, max(time.Duration(seconds), time.Millisecond))
	}
}

// repeatable reports whether the request may be sent twice.
func (q *request) repeatable() bool {
	return q.method != "POST" && q.method != "PATCH" || q.header.Get("Idempotency-Key") != ""
}

func text(v any, otherwise string) string {
	if s, ok := v.(string); ok {
		return s
	}
	return otherwise
}

func number(v any, otherwise float64) float64 {
	if n, ok := jcs.Number(v); ok {
		return n
	}
	return otherwise
}

const maxAddress = 8192

// address parses the address of a request. It writes the host as grants do: in lower case, without a dot at the end.
// Its errors show no more than the host, since the rest may be secret.
func address(raw string) (*url.URL, error) {
	address, err := url.Parse(escaped(raw))
	if err != nil || len(raw) > maxAddress || address.Opaque != "" {
		return nil, wrong("the url is invalid")
	}
	if address.Scheme != "http" && address.Scheme != "https" {
		return nil, wrong("the url must begin with http:// or https://")
	}
	if address.User != nil {
		return nil, wrong("the url contains a user name or password: use auth instead")
	}
	host, port := strings.TrimSuffix(strings.ToLower(address.Hostname()), "."), address.Port()
	if port == "" && !strings.HasSuffix(address.Host, ":") {
		port = "443"
		if address.Scheme == "http" {
			port = "80"
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' || !web.IsHost(host) {
		return nil, wrong("the url has no valid host and port")
	}
	address.Host, address.Fragment, address.RawFragment = net.JoinHostPort(host, port), "", ""
	return address, nil
}

// escaped escapes the characters that an address can't contain. net/url would otherwise remove all escapes from such
// a path, and "a%2Fb" would lead elsewhere.
func escaped(raw string) string {
	var b strings.Builder
	for _, c := range []byte(raw) {
		if c >= 0x80 || strings.IndexByte(" \"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// check refuses a host that wasn't granted.
func check(n sandbox.Network, u *url.URL) error {
	if n.Grants(u.Hostname(), u.Port()) {
		return nil
	}
	return notGranted(u.Host, len(n.Hosts) == 0)
}
