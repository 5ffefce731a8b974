package paths

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
)

// smallWait bounds how long a document may take that a command waits for.
const smallWait = 5 * time.Minute

// GetSmall fetches all of a document from an https address, which must lead to no inside if a stranger wrote it.
// Proxies and certificates are as Go takes them from the environment.
func GetSmall(ctx context.Context, a *cli.App, address string, most int64, stranger bool) ([]byte, error) {
	if a.IsOffline() {
		return nil, fault.New(fault.Offline, "%q is not fetched: rye is offline", web.Shown(address)).
			On("url", web.Shown(address))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, smallWait, &web.SlowError{Phase: web.Everything, After: smallWait})
	defer cancel()
	file, _, err := web.New(webOptions(a, stranger)).Get(ctx, address, most)
	if err != nil {
		if refused, ok := errors.AsType[*web.RefusedError](err); ok {
			refused.Unnamed = "" // the hosts in a policy are those of bundles
		}
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// Fetcher fetches from the addresses that the user names; nil offline.
func Fetcher(a *cli.App) source.Fetcher {
	if a.IsOffline() {
		return nil
	}
	return web.New(webOptions(a, false))
}

// webOptions are those of a client; its addresses are a stranger's or the user's own.
func webOptions(a *cli.App, stranger bool) web.Options {
	return web.Options{Stranger: stranger, PlainHTTP: a.Globals.PlainHTTP,
		Again: func(err error, in time.Duration) { AskedAgain(a, err, in) }}
}

// AskedAgain says that a server is asked again.
func AskedAgain(a *cli.App, err error, in time.Duration) {
	a.Term.Note("%s; asking again in %s", err, in)
}
