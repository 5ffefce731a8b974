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

// smallWait is how long a command waits for a document.
const smallWait = 5 * time.Minute

// GetSmall fetches a whole document from an https address, which must be public if stranger is set. Proxies and
// certificates come from the environment, as in Go.
func GetSmall(ctx context.Context, a *cli.App, address string, most int64, stranger bool) ([]byte, error) {
	b, err := get(ctx, a, address, most, webOptions(a, stranger))
	if refused, ok := errors.AsType[*web.RefusedError](err); ok {
		refused.Unnamed = "" // a policy's hosts are for bundles, so the hint doesn't apply
	}
	return b, err
}

func get(ctx context.Context, a *cli.App, address string, most int64, o web.Options) ([]byte, error) {
	if a.IsOffline() {
		return nil, fault.New(fault.Offline, "%q is not fetched: rye is offline", web.Shown(address)).
			On("url", web.Shown(address))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, smallWait, &web.SlowError{Phase: web.Everything, After: smallWait})
	defer cancel()
	file, _, err := web.New(o).Get(ctx, address, most)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// GetOffered fetches a whole document from an address that the user need not have typed: it leads inside the network
// only to the hosts of inside.
func GetOffered(ctx context.Context, a *cli.App, address string, most int64, inside []string) ([]byte, error) {
	o := webOptions(a, true)
	o.Inside = inside
	return get(ctx, a, address, most, o)
}

// Fetcher returns a fetcher for addresses that the user names, or nil if offline.
func Fetcher(a *cli.App) source.Fetcher {
	if a.IsOffline() {
		return nil
	}
	return web.New(webOptions(a, false))
}

// webOptions returns the options of a web client; stranger is as in web.Options.
func webOptions(a *cli.App, stranger bool) web.Options {
	return web.Options{Stranger: stranger, PlainHTTP: a.Globals.PlainHTTP,
		Again: func(err error, in time.Duration) { AskedAgain(a, err, in) }}
}

// AskedAgain tells the user that rye asks a server again.
func AskedAgain(a *cli.App, err error, in time.Duration) {
	a.Term.Note("%s; asking again in %s", err, in)
}
