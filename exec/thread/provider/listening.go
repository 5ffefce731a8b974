package provider

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
)

// dialWait bounds a connection attempt to this machine, which normally succeeds or fails at once.
const dialWait = 2 * time.Second

// Running refuses a model whose server is on this machine and doesn't run, and whose fallback's doesn't run either.
// Retries would only hide that from the user, who has to start it or name another model.
func Running(ctx context.Context, session *session.Session, m Model) error {
	if f, has := m.(*fallible); has {
		if next, is := f.next.(*service); is {
			if _, listening := next.Provider().Listening(ctx); listening {
				return nil
			}
		}
		m = f.Model
	}
	of, is := m.(*service)
	if !is {
		return nil
	}
	at, listening := of.Provider().Listening(ctx)
	if listening {
		return nil
	}
	failure := fault.New(fault.Unavailable, "nothing listens at %s, the address of %s", at, m).
		On("provider", of.Provider().Ref.ID).On("address", at).
		Because("start the model's server, or name another model")
	if start := of.Provider().Start; start != "" {
		failure.Try(start)
	}
	candidates, err := Candidates(ctx, session)
	if err != nil {
		return err
	}
	for _, other := range candidates {
		if len(other.Lacks) > 0 || other.Tiers[defaultTier] == "" {
			continue
		}
		if _, listens := other.Listening(ctx); listens {
			failure.Try("--model=" + fault.Quote(other.Ref.ID+"/"+defaultTier))
			break
		}
	}
	return failure.Try("rye docs providers")
}

// Listening reports whether the provider's server accepts connections, and its address, if it is on this machine. It
// asks no other machine: such a server counts as listening.
func (p *Provider) Listening(ctx context.Context) (address string, listening bool) {
	host, port := p.address.Hostname(), p.address.Port()
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		return "", true
	}
	if port == "" {
		port = p.address.Scheme // a service's name, as net resolves it
	}
	address = net.JoinHostPort(host, port)
	dialer := net.Dialer{Timeout: dialWait}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return address, false
	}
	conn.Close()
	return address, true
}
