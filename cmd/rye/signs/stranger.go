package signs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// Meet runs a command on the archive at path, or on the sources of a project. If the policy doesn't know a signer,
// Meet shows whose key it claims to be and asks once on a terminal whether to trust it; then the command runs again.
// Without a terminal the refusal ends in the one command that trusts the key. Signers named by flags take the place of
// the policy.
func Meet(ctx context.Context, a *cli.App, path string, flags []string, run func() (cli.Answer, error)) (cli.Answer,
	error) {
	ans, err := run()
	if err == nil || len(flags) > 0 {
		return ans, err
	}
	f := fault.Of(err)
	if f.Code != fault.UntrustedKey {
		return ans, err
	}
	root, noPolicy := paths.Paths(a).RootPolicy()
	claim, ok := claimIn(ctx, a, err, path)
	if noPolicy != nil || !ok {
		return ans, err
	}
	s, ok := newStranger(claim, root.Side.Policy)
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
		return ans, f.Try(fault.Command("rye trust add --from",
			claim.From) + " --fingerprint " + s.print.String() + s.flags())
	}
	a.Term.Note("%-11s  %s", s.kind, s.name)
	a.Term.Note("fingerprint  %s", s.print)
	a.Term.Note("owner        %s", s.owner())
	if err := a.Confirm(ctx, fmt.Sprintf("trust this key for %s?", strings.Join(s.names, " "))); err != nil {
		return ans, err
	}
	if _, err := trusts.AddFrom(ctx, a, claim.From, s.print, s.names); err != nil {
		return ans, err
	}
	return Meet(ctx, a, path, flags, run) // an index and its bundles may have several signers
}

// claimIn returns a refused document's claim about its signers, from the error or else from the archive.
func claimIn(ctx context.Context, a *cli.App, err error, path string) (*bundle.NotAdmittedError, bool) {
	if no, ok := errors.AsType[*bundle.NotAdmittedError](err); ok && no.From != "" {
		claim := *no
		switch typed := a.Absolute(cli.Setting{Value: path}); {
		case path != "" && typed.Err == nil && typed.Value == claim.From:
			claim.From = path
		case !strings.Contains(claim.From, "://"):
			dir, layout := strings.CutPrefix(claim.From, oci.LayoutScheme)
			if claim.From = paths.FromHere(a, dir); layout {
				claim.From = oci.LayoutScheme + claim.From
			}
		}
		return &claim, true
	}
	if path == "" {
		return strangerIn(a, err)
	}
	at := a.Absolute(cli.Setting{Value: path})
	if at.Err != nil {
		return nil, false
	}
	h, err := archive.ReadFileHead(ctx, at.Value)
	if err != nil {
		return nil, false
	}
	return &bundle.NotAdmittedError{Name: h.List.Name, From: path, Signatures: h.List.Signatures, Keys: h.Keys}, true
}

// strangerIn returns the claim of the project about the signer of the locked items that an error is about.
func strangerIn(a *cli.App, err error) (*bundle.NotAdmittedError, bool) {
	var refs []model.Ref
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		for _, p := range closed.Problems {
			if fault.CodeOf(p.Err) == fault.UntrustedKey {
				refs = append(refs, p.Ref)
			}
		}
	} else if text, ok := fault.Of(err).Details["ref"].(string); ok {
		if ref, bad := model.ParseRef(text); bad == nil {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return nil, false
	}
	l, bad := paths.OpenLock(a, false)
	if bad != nil {
		return nil, false
	}
	defer l.Close()
	no, ok := errors.AsType[*bundle.NotAdmittedError](l.Stranger(refs...))
	if ok {
		no.From = paths.FromHere(a, no.From)
	}
	return no, ok
}

// A stranger is a signer of a bundle, an index or a project's items that the policy doesn't know.
type stranger struct {
	kind, name string // of what is signed: "bundle", "index" or an item's kind
	source     string // the source of the key
	print      key.Fingerprint
	key        manifest.SignerKey // zero if the source doesn't have it
	names      []string           // names that the signer would be trusted for
	alarm      string             // why the key looks like an impostor's
}

// newStranger finds the first unknown signer of a document, preferring one whose public key is known.
func newStranger(claim *bundle.NotAdmittedError, p *policy.Policy) (s stranger, ok bool) {
	for _, l := range claim.Signatures {
		if _, known := p.Key(l.Key); known || ok && !s.key.Public.IsZero() {
			continue
		}
		s.print, ok = l.Key, true
		if i := slices.IndexFunc(claim.Keys, func(k manifest.SignerKey) bool {
			return k.Public.Fingerprint() == l.Key
		}); i >= 0 {
			s.key = claim.Keys[i]
		}
	}
	s.kind, s.name, _ = strings.Cut(claim.Name, ":")
	s.source = "archive"
	switch {
	case claim.Names != nil:
		s.source = "project"
	case s.kind == "index":
		s.source = s.kind
	case strings.HasPrefix(claim.From, oci.LayoutScheme):
		s.source = "image layout"
	case oci.IsReference(claim.From):
		s.source = "registry"
	}
	id, _, _ := strings.Cut(s.name, "@")
	space, _, below := strings.Cut(id, "/")
	if s.names = []string{space + "/**"}; !below {
		s.names = []string{space, space + "/**"}
	}
	if claim.Names != nil {
		s.names = claim.Names
	}
	for _, known := range p.Sections().Keys {
		if s.key.Owner != "" && known.Owner == s.key.Owner {
			s.alarm = fmt.Sprintf("the policy knows another key of %s, %s: this one may be an impostor's", known.Owner,
				known.Public.Fingerprint().Short())
		}
	}
	if r, covered := p.RuleOf(s.kind + ":" + id); covered && r.Glob != "**" {
		s.alarm = fmt.Sprintf("%s is signed by %s in the policy: another key may be an impostor's", r.Glob,
			strings.Join(r.Keys, ", "))
	}
	return s, ok
}

func (s stranger) owner() string {
	if s.key.Owner == "" {
		return "not stated in the " + s.source
	}
	return s.key.Owner + ", as the " + s.source + " claims"
}

// flags returns the names as flags of rye trust add.
func (s stranger) flags() (text string) {
	for _, name := range s.names {
		text += " --names " + fault.Quote(name)
	}
	return text
}

// SignerKeys returns the root policy's public keys and owners for a document's signers. They are published for its
// readers.
func SignerKeys(a *cli.App, s manifest.Signatures) (keys []manifest.SignerKey) {
	root, err := paths.Paths(a).RootPolicy()
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
