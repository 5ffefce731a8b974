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
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// Meet runs a command on the archive at path, or on the sources of a project. If the policy doesn't know a signer,
// Meet shows whose key it claims to be and asks once on a terminal whether to trust it; then the command runs again.
// Without a terminal the refusal ends in the one command that trusts the key. Signers named by flags take the place of
// the policy.
func Meet(ctx context.Context, app *cli.App, path string, flags []string, run func() (cli.Answer, error)) (cli.Answer,
	error) {
	ans, err := run()
	if err == nil || len(flags) > 0 {
		return ans, err
	}
	failure := fault.Of(err)
	if failure.Code != fault.UntrustedKey {
		return ans, err
	}
	root, noPolicy := paths.Paths(app).RootPolicy()
	claim, ok := claimIn(ctx, app, err, path)
	if noPolicy != nil || !ok {
		return ans, err
	}
	stranger, ok := newStranger(claim, root.Side.Policy)
	if !ok {
		return ans, err
	}
	failure.Hint = nil
	if own, yes := stranger.own(app); yes && claim.Names != nil {
		return ans, failure.Because(fmt.Sprintf("signer    %s: your key %q, which the policy no longer has",
			stranger.print, own)).Try("rye sign --all", "rye trust list")
	}
	failure.Because("signer    "+stranger.print.String(), "owner     "+stranger.owner(),
		"names     "+strings.Join(stranger.names, " "))
	switch {
	case stranger.alarm != "":
		return ans, failure.Because(stranger.alarm).Try("rye trust list")
	case stranger.key.Public.IsZero():
		return ans, failure.Try("rye trust add KEYFILE --fingerprint " + stranger.print.String() +
			" --owner OWNER" + stranger.flags())
	case !app.CanAsk() || app.Globals.Yes:
		return ans, failure.Try(fault.Command("rye trust add --from",
			claim.From) + " --fingerprint " + stranger.print.String() + stranger.flags())
	}
	app.Term.Note("%-11s  %s", stranger.kind, stranger.name)
	app.Term.Note("fingerprint  %s", stranger.print)
	app.Term.Note("owner        %s", stranger.owner())
	if err := app.Confirm(ctx, fmt.Sprintf("trust this key for %s?", strings.Join(stranger.names, " "))); err != nil {
		return ans, err
	}
	shown := source.Claim{Name: claim.Name, Keys: claim.Keys}
	if _, err := trusts.AddFrom(ctx, app, claim.From, shown, stranger.print, stranger.names); err != nil {
		return ans, err
	}
	return Meet(ctx, app, path, flags, run) // an index and its bundles may have several signers
}

// claimIn returns a refused document's claim about its signers, from the error or else from the archive.
func claimIn(ctx context.Context, app *cli.App, err error, path string) (*bundle.NotAdmittedError, bool) {
	if no, ok := errors.AsType[*bundle.NotAdmittedError](err); ok && no.From != "" {
		claim := *no
		switch typed := app.Absolute(cli.Setting{Value: path}); {
		case path != "" && typed.Err == nil && typed.Value == claim.From:
			claim.From = path
		case !strings.Contains(claim.From, "://"):
			dir, layout := strings.CutPrefix(claim.From, oci.LayoutScheme)
			if claim.From = paths.FromHere(app, dir); layout {
				claim.From = oci.LayoutScheme + claim.From
			}
		}
		return &claim, true
	}
	if path == "" {
		return strangerIn(app, err)
	}
	at := app.Absolute(cli.Setting{Value: path})
	if at.Err != nil {
		return nil, false
	}
	h, err := archive.ReadFileHead(ctx, at.Value)
	if err != nil {
		return pluginClaim(ctx, app, path, at.Value)
	}
	return &bundle.NotAdmittedError{Name: h.List.Name, From: path, Signatures: h.List.Signatures, Keys: h.Keys}, true
}

// pluginClaim returns the claim of the plugin in a directory, or in an archive that another program made.
func pluginClaim(ctx context.Context, app *cli.App, path, at string) (*bundle.NotAdmittedError, bool) {
	work, found, err := paths.FindBundle(ctx, app, path)
	if err != nil {
		return nil, false
	}
	defer work.Close()
	if err := found.Read(ctx); err != nil || found.Bundle == nil || found.Bundle.Plugin == "" {
		return nil, false
	}
	claim, err := source.ReadClaim(ctx, nil, at)
	return &bundle.NotAdmittedError{Name: found.Bundle.Name, From: path, Signatures: found.Bundle.Signatures,
		Keys: claim.Keys}, err == nil
}

// strangerIn returns the claim of the project about the signer of the locked items that an error is about.
func strangerIn(app *cli.App, err error) (*bundle.NotAdmittedError, bool) {
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
	l, bad := paths.OpenLock(app, false)
	if bad != nil {
		return nil, false
	}
	defer l.Close()
	no, ok := errors.AsType[*bundle.NotAdmittedError](l.Stranger(refs...))
	if ok {
		no.From = paths.FromHere(app, no.From)
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
func newStranger(claim *bundle.NotAdmittedError, rules *policy.Policy) (stranger stranger, ok bool) {
	for _, l := range claim.Signatures {
		if _, known := rules.Key(l.Key); known || ok && !stranger.key.Public.IsZero() {
			continue
		}
		stranger.print, ok = l.Key, true
		if i := slices.IndexFunc(claim.Keys, func(k manifest.SignerKey) bool {
			return k.Public.Fingerprint() == l.Key
		}); i >= 0 {
			stranger.key = claim.Keys[i]
		}
	}
	stranger.kind, stranger.name, _ = strings.Cut(claim.Name, ":")
	stranger.source = "archive"
	switch {
	case claim.Names != nil:
		stranger.source = "project"
	case stranger.kind == "index":
		stranger.source = stranger.kind
	case strings.HasPrefix(claim.From, oci.LayoutScheme):
		stranger.source = "image layout"
	case oci.IsReference(claim.From):
		stranger.source = "registry"
	}
	id, _, _ := strings.Cut(stranger.name, "@")
	space := plugin.Owned(id)
	if stranger.names = []string{space + "/**"}; space == id {
		stranger.names = []string{space, space + "/**"}
	}
	if claim.Names != nil {
		stranger.names = claim.Names
	}
	for _, known := range rules.Sections().Keys {
		if stranger.key.Owner != "" && known.Owner == stranger.key.Owner {
			stranger.alarm = fmt.Sprintf("the policy knows another key of %s, %s: this one may be an impostor's",
				known.Owner,
				known.Public.Fingerprint().Short())
		}
	}
	if r, covered := rules.RuleOf(stranger.kind + ":" + id); covered && r.Glob != "**" {
		stranger.alarm = fmt.Sprintf("%s is signed by %s in the policy: another key may be an impostor's", r.Glob,
			strings.Join(r.Keys, ", "))
	}
	return stranger, ok
}

// own returns the name of the signer's key if the user has it and signs with another one: after a rotation, or once
// the policy lost it, no hint may trust it again.
func (s stranger) own(app *cli.App) (name string, yes bool) {
	lines, _ := trusts.KeyLines(app)
	for _, line := range lines {
		if line.Fingerprint == s.print.String() {
			name = line.Name
		}
		yes = yes || line.Default && len(line.Vouches) > 0
	}
	return name, yes && name != ""
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
