package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"time"

	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
)

// smallWait bounds how long a document may take that a command waits for.
const smallWait = 5 * time.Minute

// getSmall fetches all of a document from an https address, which must lead to no inside if a stranger wrote it.
// Proxies and certificates are as Go takes them from the environment.
func (a *app) getSmall(ctx context.Context, address string, most int64, stranger bool) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, smallWait, &web.SlowError{Phase: web.Everything, After: smallWait})
	defer cancel()
	file, _, err := web.New(web.Options{Stranger: stranger, Again: a.askedAgain}).Get(ctx, address, most)
	if err != nil {
		if refused, ok := errors.AsType[*web.RefusedError](err); ok {
			refused.Unnamed = "" // the hosts in a policy are those of bundles
		}
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// askedAgain says that a server is asked again.
func (a *app) askedAgain(err error, in time.Duration) {
	a.term.note("%s; asking again in %s", err, in)
}

// ofWeb recognises what the room lock/web says.
func (f *fault) ofWeb() bool {
	var (
		fetch   *web.Error
		refused *web.RefusedError
		connect *web.ConnectError
		status  *web.StatusError
		limit   *web.LimitError
		slow    *web.SlowError
	)
	if !errors.As(f.err, &fetch) {
		return false
	}
	f.details = map[string]any{"url": fetch.URL}
	if at, ok := errors.AsType[*sources.Error](f.err); ok && at.Err == error(fetch) && at.Where == fetch.URL && at.ID == "" {
		f.message = fetch.Error() // which names the address a second time
	}
	if fetch.From != "" {
		f.details["from"] = fetch.From
	}
	switch {
	case errors.As(fetch, &refused):
		f.details["reason"] = string(refused.Reason)
		// What a server or a name service led to is refused; what was written is mistaken.
		f.code = "POLICY_DENIED"
		if fetch.From == "" && refused.Reason != web.Inside {
			f.code = codeValidation
		}
		switch {
		case refused.Unnamed != "":
			f.why = []string{"what a project names may not send rye to this machine or a network's inside, unless the root policy names the host:",
				"inside: [" + strconv.Quote(refused.Unnamed) + "]"}
			f.details["inside"], f.hint = refused.Unnamed, []string{"rye docs policy"}
		case refused.Reason == web.Inside:
			f.why = []string{"nobody but the address that was given itself may send rye to this machine or a network's inside"}
		}
	case errors.As(fetch, &connect):
		f.unconnected(connect)
	case errors.As(fetch, &status):
		f.answered(status)
	case errors.As(fetch, &limit):
		f.code = "LIMIT_EXCEEDED"
	case errors.As(fetch, &slow):
		f.code = codeTimeout
	default:
		f.code = "REGISTRY_ERROR"
	}
	return true
}

func (f *fault) unconnected(e *web.ConnectError) {
	f.code = "UNAVAILABLE"
	if e.Proxy != "" {
		f.details["proxy"] = e.Proxy
	}
	if stranger := (*tls.CertificateVerificationError)(nil); errors.As(e, &stranger) {
		f.code, f.details["reason"] = "POLICY_DENIED", "certificate"
		f.why = []string{"nobody whom this system believes says that this is the server; a company's own authority stands in SSL_CERT_FILE"}
	}
}

func (f *fault) answered(e *web.StatusError) {
	f.details["status"] = e.Status
	if e.RetryAfter > 0 {
		f.details["retry_after"] = int64(e.RetryAfter / time.Second)
	}
	switch {
	case errors.Is(e, fs.ErrNotExist):
		f.code = codeItem
	case e.Status == 401 || e.Status == 403:
		f.code, f.why = "AUTH_REQUIRED", []string{"rye sends no credentials"}
	case e.Status == 429:
		f.code = "RATE_LIMITED"
	case e.Status >= 500:
		f.code = "UNAVAILABLE"
	default:
		f.code = "REGISTRY_ERROR"
	}
}
