package classify

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas/fault"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
)

// ofWeb recognises what the room lock/web says.
func ofWeb(f *fault.Error) bool {
	var (
		fetch   *web.Error
		refused *web.RefusedError
		connect *web.ConnectError
		status  *web.StatusError
		limit   *web.LimitError
		slow    *web.SlowError
	)
	if !errors.As(f.Err, &fetch) {
		return false
	}
	f.Details = map[string]any{"url": fetch.URL}
	if at, ok := errors.AsType[*sources.Error](f.Err); ok && at.Err == error(fetch) && at.Where == fetch.URL && at.ID == "" {
		f.Text = fetch.Error() // which names the address a second time
	}
	if fetch.From != "" {
		f.Details["from"] = fetch.From
	}
	switch {
	case errors.As(fetch, &refused):
		f.Details["reason"] = string(refused.Reason)
		// What a server or a name service led to is refused; what was written is mistaken.
		f.Code = fault.Policy
		if fetch.From == "" && refused.Reason != web.Inside {
			f.Code = fault.Validation
		}
		switch {
		case refused.Unnamed != "":
			f.Why = []string{"what a project names may not send rye to this machine or a network's inside, unless the root policy names the host:",
				"inside: [" + strconv.Quote(refused.Unnamed) + "]"}
			f.Details["inside"], f.Hint = refused.Unnamed, []string{"rye docs policy"}
		case refused.Reason == web.Inside:
			f.Why = []string{"nobody but the address that was given itself may send rye to this machine or a network's inside"}
		}
	case errors.As(fetch, &connect):
		ofConnect(f, connect)
	case errors.As(fetch, &status):
		ofStatus(f, status)
	case errors.As(fetch, &limit):
		f.Code = fault.Limit
	case errors.As(fetch, &slow):
		f.Code = fault.Timeout
	default:
		f.Code = fault.Registry
	}
	return true
}

func ofConnect(f *fault.Error, e *web.ConnectError) {
	f.Code = fault.Unavailable
	if e.Proxy != "" {
		f.Details["proxy"] = e.Proxy
	}
	if stranger := (*tls.CertificateVerificationError)(nil); errors.As(e, &stranger) {
		f.Code, f.Details["reason"] = fault.Policy, "certificate"
		f.Why = []string{"nobody whom this system believes says that this is the server; a company's own authority stands in SSL_CERT_FILE"}
	}
}

func ofStatus(f *fault.Error, e *web.StatusError) {
	f.Details["status"] = e.Status
	if e.RetryAfter > 0 {
		f.Details["retry_after"] = int64(e.RetryAfter / time.Second)
	}
	switch {
	case errors.Is(e, fs.ErrNotExist):
		f.Code = fault.NotFound
	case e.Status == 401 || e.Status == 403:
		f.Code, f.Why = fault.AuthRequired, []string{"rye sends no credentials"}
	case e.Status == 429:
		f.Code = fault.RateLimited
	case e.Status >= 500:
		f.Code = fault.Unavailable
	default:
		f.Code = fault.Registry
	}
}
