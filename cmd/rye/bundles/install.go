package bundles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/manifest"
)

type bundleInstallRun struct {
	Bundle string `arg:"" complete:"bundle" help:"Archive, bundle of the store or project, or digest."`
	spaces.SignerFlags
}

// bundleInstalled is what is installed now, and what was before.
type bundleInstalled struct {
	Bundle   string           `json:"bundle"`
	Version  string           `json:"version"`
	Manifest string           `json:"manifest"`
	Changed  bool             `json:"changed"`
	Before   *install.Version `json:"before,omitempty"`
	Items    int              `json:"items"`
}

func (i bundleInstalled) Text(t *cli.Terminal) {
	if !i.Changed {
		t.Note("%s@%s is installed already", i.Bundle, i.Version)
		return
	}
	t.Printf("installed  %s@%s  %s\n", i.Bundle, i.Version, i.Manifest)
	if i.Before != nil {
		t.Note("%s was there before: rye bundle rollback %s %s", i.Before.Version, i.Bundle, i.Before.Version)
	}
}

func (c *bundleInstallRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, c.Bundle, c.Signer, func() (cli.Answer, error) { return c.install(ctx, a) })
}

func (c *bundleInstallRun) install(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, v, err := c.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if _, err := b.OpenStore(true); err != nil {
		return nil, err
	}
	l, byName, err := b.Finder(ctx).Newest(ctx, c.Bundle)
	if err == nil {
		err = l.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	var id cas.Digest
	switch l.Where {
	case find.InBinary:
		return nil, fault.New(fault.Denied, "\"rye/std\" is part of every rye: it is there already").
			On("reason", "builtin")
	case find.InArchive, find.InProject:
		r, err := take(ctx, b, l, v)
		if err != nil {
			return nil, err
		}
		id = r.ID
	default:
		id = l.Bundle.ID
	}
	return installBundle(ctx, b, install.Request{ID: id, ByName: byName}, v)
}

// installBundle makes a bundle of the store the installed one.
func installBundle(ctx context.Context, b *paths.Workspace, r install.Request, v *spaces.Vouching) (cli.Answer,
	error) {
	s, err := b.OpenStore(true)
	if err != nil {
		return nil, err
	}
	list, err := bundle.ReadStored(ctx, s, s, r.ID)
	if err != nil {
		return nil, err
	}
	before, err := b.Finder(ctx).Current(list.BundleID)
	if err != nil && !isUnreadablePointer(err) {
		return nil, err
	}
	space, _, err := v.Space(ctx, b, list.FileList)
	if err != nil {
		return nil, err
	}
	p := b.App.Progress("verifying", list.Bytes)
	defer p.Done()
	v.Options.Progress = p.Reached()
	report, err := space.Install(ctx, r, v.Options)
	if err != nil {
		return nil, err
	}
	return newBundleInstalled(report, before), nil
}

// isUnreadablePointer reports whether what is installed can't be read, which installing it anew helps against.
func isUnreadablePointer(err error) bool {
	_, ok := errors.AsType[*install.ManifestError](err)
	return ok
}

func newBundleInstalled(r *bundle.Report, before *install.Installed) bundleInstalled {
	ans := bundleInstalled{Bundle: r.BundleID, Version: r.Version, Manifest: r.ID.String(), Changed: true,
		Items: len(r.Vouched)}
	if before != nil && before.Bundle != nil {
		ans.Changed = before.ID != r.ID
		if ans.Changed {
			ans.Before = &install.Version{Version: before.Version, ID: before.ID}
		}
	}
	return ans
}

type bundleRemoveRun struct {
	Bundle string `arg:"" complete:"bundle" help:"Installed bundle's id, or a stored bundle's digest."`
}

type bundleRemoved struct {
	Bundle   string `json:"bundle"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
	Previous int    `json:"previous"` // versions before it
	Where    string `json:"where"`
}

func (r bundleRemoved) Text(t *cli.Terminal) {
	t.Printf("removed  %s@%s  %s\n", r.Bundle, r.Version, r.Where)
}

func (c *bundleRemoveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if strings.HasPrefix(c.Bundle, "blake3:") {
		return c.forget(ctx, b)
	}
	space, err := b.Space()
	if err != nil {
		return nil, err
	}
	at, err := space.Get(c.Bundle)
	if isUnreadablePointer(err) {
		at, err = &install.Installed{Bundle: &bundle.Bundle{FileList: &manifest.FileList{BundleID: c.Bundle,
			Version: "?"}}}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		f := fault.Of(err)
		names := slices.DeleteFunc(b.Finder(ctx).IDs(ctx), func(name string) bool { return name == c.Bundle })
		if found := suggest.Names(c.Bundle, names); len(found) > 0 {
			f.Why = []string{"did you mean " + strings.Join(found, ", ") + "?"}
		}
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	question := fmt.Sprintf("remove %s@%s", at.BundleID, at.Version)
	if n := len(at.Previous); n > 0 {
		question += fmt.Sprintf(" and the %s before it", fault.Count(int64(n), "version"))
	}
	if err := a.Confirm(ctx, question+"?"); err != nil {
		return nil, err
	}
	if _, err := b.OpenStore(true); err != nil {
		return nil, err
	}
	if space, err = b.Space(); err != nil {
		return nil, err
	}
	if err := space.Remove(ctx, c.Bundle); err != nil {
		return nil, err
	}
	return bundleRemoved{at.BundleID, at.Version, at.ID.String(), len(at.Previous), find.InUser}, nil
}

// forget takes a bundle's name away in the store, the one of its document first.
func (c *bundleRemoveRun) forget(ctx context.Context, b *paths.Workspace) (cli.Answer, error) {
	l, err := b.Find(ctx, c.Bundle)
	if err == nil {
		err = l.Read(ctx)
	}
	if err != nil {
		return nil, err
	}
	s, err := b.OpenStore(true)
	if err != nil {
		return nil, err
	}
	name := install.Ref(l.Bundle.ID)
	if l.V1 != nil {
		name = install.V1Ref(l.Bundle.ID)
	}
	if err := b.App.Confirm(ctx, fmt.Sprintf("remove %s@%s from the store?", l.Bundle.BundleID,
		l.Bundle.Version)); err != nil {
		return nil, err
	}
	for _, ref := range []string{name, name + "/files", name + "/evidence"} {
		old, err := s.Ref(ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = s.SetRef(ctx, ref, old, cas.ID{})
		}
		if err != nil {
			return nil, err
		}
	}
	return bundleRemoved{l.Bundle.BundleID, l.Bundle.Version, l.Bundle.ID.String(), 0, find.InStore}, nil
}

type bundleRollbackRun struct {
	Bundle string `arg:"" complete:"bundle" help:"Installed bundle's id."`
	To     string `arg:"" optional:"" name:"version" complete:"version" help:"Version, or digest of its manifest."`
	spaces.SignerFlags
}

// CompleteVersions offers the versions to go back to.
func CompleteVersions(ctx context.Context, a *cli.App) (out []cli.Candidate) {
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil
	}
	defer b.Close()
	all, _ := b.Finder(ctx).AllInstalled(ctx)
	for _, at := range all {
		out = append(out, cli.Offer(at.Previous, func(v install.Version) (string, string) {
			return v.Version, at.BundleID + " " + v.ID.Short()
		})...)
	}
	return out
}

func (c *bundleRollbackRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, v, err := c.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	space, err := b.Space()
	if err != nil {
		return nil, err
	}
	at, err := space.Get(c.Bundle)
	if err != nil {
		return nil, err
	}
	to, err := c.target(at)
	if err != nil {
		return nil, err
	}
	if err := a.Confirm(ctx, fmt.Sprintf("roll %s back from %s to %s?", at.BundleID, at.Version,
		to.Version)); err != nil {
		return nil, err
	}
	s, err := b.OpenStore(true)
	if err != nil {
		return nil, err
	}
	old, err := bundle.ReadStored(ctx, s, s, to.ID)
	if err != nil {
		return nil, err
	}
	if space, _, err = v.Space(ctx, b, old.FileList); err != nil {
		return nil, err
	}
	p := a.Progress("verifying", old.Bytes)
	defer p.Done()
	v.Options.Progress = p.Reached()
	r, err := space.Rollback(ctx, c.Bundle, to.ID, v.Options)
	if err != nil {
		return nil, err
	}
	return newBundleInstalled(r, at), nil
}

// target is the version to go back to.
func (c *bundleRollbackRun) target(at *install.Installed) (install.Version, error) {
	var fit []install.Version
	for _, p := range at.Previous {
		switch {
		case c.To == "" && manifest.CompareVersions(p.Version, at.Version) < 0 && len(fit) == 0, c.To != "" &&
			(c.To == p.Version || c.To == p.ID.String()):
			fit = append(fit, p)
		}
	}
	var f *fault.Error
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		f = fault.New(fault.Ambiguous, "several bundles were installed as %s@%s: a digest tells them apart",
			at.BundleID, c.To)
	case c.To == at.Version || c.To == at.ID.String():
		f = fault.New(fault.Validation, "%s@%s is the installed one", at.BundleID, at.Version)
	case c.To == "":
		f = fault.New(fault.NotFound, "no version of %q before %s was installed", at.BundleID, at.Version)
	default:
		f = fault.New(fault.NotFound, "%q was never installed as %q", at.BundleID, c.To)
	}
	for _, p := range at.Previous {
		f.Because(p.Version + "  " + p.ID.String())
	}
	return install.Version{}, f.On("bundle", at.BundleID)
}
