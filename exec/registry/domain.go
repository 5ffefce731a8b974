package registry

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// isDomain reports whether a namespace reads as a domain: people would take it for its owner's.
func isDomain(name string) bool {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return false
	}
	top := strings.ToLower(name[i+1:])
	return len(top) >= 2 && strings.Trim(top, "abcdefghijklmnopqrstuvwxyz") == "" || strings.HasPrefix(top, "xn--")
}

// prove refuses the claim of a domain unless its DNS names this registry and the account.
func (r *Registry) prove(ctx context.Context, account, name string) error {
	if !isDomain(name) {
		return nil
	}
	at, want := "_rye."+strings.ToLower(name), "rye-owner="+r.o.Name+"/"+account
	refusal := fault.New(fault.Denied, "the namespace %q is a domain, and its DNS doesn't name the account %q", name,
		account).On("namespace", name).
		Because("add this record and claim it again: " + at + ". TXT " + fault.Quote(want)).
		Try("rye owner claim " + fault.Quote(name))
	if r.o.TXT == nil {
		return refusal
	}
	texts, err := r.o.TXT(ctx, at+".")
	var none *net.DNSError
	switch {
	case errors.As(err, &none) && none.IsNotFound:
		return refusal
	case err != nil:
		return fault.New(fault.Unavailable, "the DNS of %q doesn't answer", name).From(err).On("namespace", name)
	case !slices.Contains(texts, want):
		return refusal
	}
	return nil
}
