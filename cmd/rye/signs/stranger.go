package signs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// Meet runs a command on the archive at path. If the policy doesn't know the signer, Meet shows whose key it claims to be
// and asks once on a terminal whether to trust it; then the command runs again. Without a terminal the refusal ends in the
// one command that trusts the key. Signers named by flags take the place of the policy.
func Meet(ctx context.Context, a *cli.App, path string, flags []string, run func() (cli.Answer, error)) (cli.Answer, error) {
	ans, err := run()
	if err == nil || path == "" || len(flags) > 0 {
		return ans, err
	}
	f := fault.Of(err)
	if f.Code != fault.UntrustedKey {
		return ans, err
	}
	h, unreadable := archive.ReadFileHead(ctx, a.Absolute(cli.Setting{Value: path}).Value)
	root, noPolicy := places.RootAuthority(a)
	if unreadable != nil || noPolicy != nil {
		return ans, err
	}
	s, ok := newStranger(h, root.Side.Policy)
	if !ok {
		return ans, err
	}
	f.Hint = nil
	f.Because("signer    "+s.print.String(), "owner     "+s.owner(), "names     "+strings.Join(s.names, " "))
	switch {
	case s.alarm != "":
		return ans, f.Because(s.alarm).Try("rye trust list")
	case s.key.Public.IsZero():
		return ans, f.Try("rye trust add KEYFILE --fingerprint " + s.print.String() + " --owner OWNER" + s.flags())
	case !a.CanAsk() || a.Globals.Yes:
		return ans, f.Try(fault.Command("rye trust add --from", path) + " --fingerprint " + s.print.String() + s.flags())
	}
	a.Term.Note("bundle       %s@%s", h.List.BundleID, h.List.Version)
	a.Term.Note("fingerprint  %s", s.print)
	a.Term.Note("owner        %s", s.owner())
	if err := a.Confirm(ctx, fmt.Sprintf("trust this key for %s?", strings.Join(s.names, " "))); err != nil {
		return ans, err
	}
	if _, err := trusts.AddFrom(ctx, a, path, s.print, s.names); err != nil {
		return ans, err
	}
	return run()
}

// A stranger is a signer of a bundle that the policy doesn't know.
type stranger struct {
	print key.Fingerprint
	key   manifest.SignerKey // zero if the archive doesn't have it
	names []string           // that the signer would vouch for
	alarm string             // why the key looks like an impostor's
}

// newStranger finds the first unknown signer of an archive, preferring one whose public key is known.
func newStranger(h *archive.Head, p *policy.Policy) (s stranger, ok bool) {
	for _, l := range h.List.Signatures {
		if _, known := p.Key(l.Key); known || ok && !s.key.Public.IsZero() {
			continue
		}
		s.print, ok = l.Key, true
		if i := slices.IndexFunc(h.Keys, func(k manifest.SignerKey) bool { return k.Public.Fingerprint() == l.Key }); i >= 0 {
			s.key = h.Keys[i]
		}
	}
	space, _, below := strings.Cut(h.List.BundleID, "/")
	if s.names = []string{space + "/**"}; !below {
		s.names = []string{space, space + "/**"}
	}
	for _, known := range p.Sections().Keys {
		if s.key.Owner != "" && known.Owner == s.key.Owner {
			s.alarm = fmt.Sprintf("the policy knows another key of %s, %s: this one may be an impostor's", known.Owner, known.Public.Fingerprint().Short())
		}
	}
	if r, covered := p.RuleOf("bundle:" + h.List.BundleID); covered && r.Glob != "**" {
		s.alarm = fmt.Sprintf("%s is signed by %s in the policy: another key may be an impostor's", r.Glob, strings.Join(r.Keys, ", "))
	}
	return s, ok
}

func (s stranger) owner() string {
	if s.key.Owner == "" {
		return "not stated in the archive"
	}
	return s.key.Owner + ", as the archive claims"
}

// flags returns the names as flags of rye trust add.
func (s stranger) flags() (text string) {
	for _, name := range s.names {
		text += " --names " + fault.Quote(name)
	}
	return text
}

// SignerKeys returns the public keys and owners that the root policy has of a document's signers, for its readers.
func SignerKeys(a *cli.App, s manifest.Signatures) (keys []manifest.SignerKey) {
	root, err := places.RootAuthority(a)
	if err != nil {
		return nil
	}
	for _, l := range s {
		if k, ok := root.Side.Policy.Key(l.Key); ok {
			keys = append(keys, manifest.SignerKey{Public: k.Public, Owner: k.Owner})
		}
	}
	return keys
}
