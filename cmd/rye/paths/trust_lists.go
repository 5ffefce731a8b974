package paths

import (
	"context"
	"errors"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/trust"
)

// Lists returns this user's revocation lists.
func Lists(a *cli.App) trust.Lists {
	state := a.Dir(cli.StatePlace)
	k := trust.Lists{Dir: state.Value, Err: state.Err, Clock: a.Clock, Now: a.Now}
	if a.IsOffline() {
		k.Why = a.Offline().Origin
		return k
	}
	k.Fetch = func(ctx context.Context, address string, most int64, stranger bool) ([]byte, error) {
		b, err := GetSmall(ctx, a, address, most, stranger)
		if err == nil || errors.Is(err, context.Canceled) {
			return b, err
		}
		f := fault.Of(err)
		if refused, ok := errors.AsType[*web.RefusedError](err); ok && stranger && refused.Reason == web.Inside {
			f.Why = []string{"the project's policy names this address; only the user's own policy may name " +
				"addresses inside the network"}
		}
		return nil, f
	}
	return k
}
