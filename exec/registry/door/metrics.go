package door

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/serve"
)

// metrics shows what the registry has counted. Beyond this machine that needs the token: the numbers tell how many
// private bundles there are, and when they are published.
func (d *Door) metrics(w http.ResponseWriter, r *http.Request) {
	if !d.onThisMachine(r) {
		secret, err := serve.Bearer(r)
		if err == nil && !sameSecret(secret, d.Scraper) {
			err = fault.New(fault.AuthFailed, "the token is not the one that reads the metrics").
				Because("it is in the file metrics.token of the data directory")
		}
		if err != nil {
			d.fail(w, err)
			return
		}
	}
	text, err := d.Registry.Metrics(r.Context())
	if err != nil {
		d.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text)
}

// onThisMachine reports whether a request comes from a program on this machine, and not through a proxy there.
func (d *Door) onThisMachine(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip.IsLoopback() && !d.Proxied && r.Header.Get("X-Forwarded-For") == "" &&
		r.Header.Get("Forwarded") == ""
}

// sameSecret compares secrets in a time that doesn't depend on their content. An empty one is none.
func sameSecret(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// counted counts the requests of a route.
func (d *Door) counted(route string, handler http.Handler) http.Handler {
	if d.Metrics == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, counted := time.Now(), &answer{ResponseWriter: w, status: http.StatusOK}
		defer func() { // also when the handler panics because the client has gone
			d.Metrics.Requests.Add(1, route, strconv.Itoa(counted.status))
			d.Metrics.Seconds.Observe(time.Since(begin).Seconds(), route)
		}()
		handler.ServeHTTP(counted, r)
	})
}

// An answer remembers its status.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ReadFrom lets the system copy files to the connection.
func (a *answer) ReadFrom(r io.Reader) (int64, error) { return io.Copy(a.ResponseWriter, r) }
