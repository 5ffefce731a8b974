// The commands rye bundle install, remove and rollback, which change the installed bundles of the user space.

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
	Bundle string `arg:"" complete:"bundle|path" help:"Archive, bundle of the store or project, or digest."`
	spaces.SignerFlags
}

// bundleInstalled is the installed version, and the one that it replaced.
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
		t.Note("%s@%s is already installed", i.Bundle, i.Version)
		return
	}
	t.Printf("installed  %s@%s  %s\n", i.Bundle, i.Version, i.Manifest)
	if i.Before != nil {
		t.Note("replaced %s; to go back: rye bundle rollback %s %s", i.Before.Version, i.Bundle, i.Before.Version)
	}
}

func (c *bundleInstallRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, c.Bundle, c.Signer, func() (cli.Answer, error) { return c.install(ctx, a) })
}

func (c *bundleInstallRun) install(ctx context.Context, a *cli.App) (cli.Answer, error) {
	work, vouching, err := c.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	if _, err := work.OpenStore(true); err != nil {
		return nil, err
	}
	found, byName, err := work.Finder(ctx).Newest(ctx, c.Bundle)
	if err == nil {
		err = found.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	var id cas.Digest
	switch found.Where {
	case find.InBinary:
		return nil, fault.New(fault.Denied, "\"rye/std\" is part of the binary and needs no installation").
			On("reason", "builtin")
	case find.InArchive, find.InProject:
		r, err := take(ctx, work, found, vouching)
		if err != nil {
			return nil, err
		}
		id = r.ID
	default:
		id = found.Bundle.ID
	}
	return installBundle(ctx, work, install.Request{ID: id, ByName: byName}, vouching)
}

// installBundle verifies a bundle of the store and makes it the installed version.
func installBundle(ctx context.Context, work *paths.Workspace, request install.Request,
	vouching *spaces.Vouching) (cli.Answer,
	error) {
	store, err := work.OpenStore(true)
	if err != nil {
		return nil, err
	}
	list, err := bundle.ReadStored(ctx, store, store, request.ID)
	if err != nil {
		return nil, err
	}
	before, err := work.Finder(ctx).Current(list.BundleID)
	if err != nil && !isUnreadablePointer(err) {
		return nil, err
	}
	space, _, err := vouching.Space(ctx, work, list.FileList)
	if err != nil {
		return nil, err
	}
	progress := work.App.Progress("verifying", list.Bytes)
	defer progress.Done()
	vouching.Options.Progress = progress.Reached()
	report, err := space.Install(ctx, request, vouching.Options)
	if err != nil {
		return nil, err
	}
	return newBundleInstalled(report, before), nil
}

// isUnreadablePointer reports whether an installed manifest can't be read. Installing the bundle again repairs that.
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
	Bundle string `arg:"" complete:"installed" help:"Installed bundle's id, or a stored bundle's digest."`
}

type bundleRemoved struct {
	Bundle   string `json:"bundle"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
	Previous int    `json:"previous"` // number of earlier versions
	Where    string `json:"where"`
}

func (r bundleRemoved) Text(t *cli.Terminal) {
	t.Printf("removed  %s@%s  %s\n", r.Bundle, r.Version, r.Where)
}

func (c *bundleRemoveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	if strings.HasPrefix(c.Bundle, "blake3:") {
		return c.forget(ctx, work)
	}
	space, err := work.Space()
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
		names := slices.DeleteFunc(work.Finder(ctx).IDs(ctx), func(name string) bool { return name == c.Bundle })
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
	if err := app.Confirm(ctx, question+"?"); err != nil {
		return nil, err
	}
	if _, err := work.OpenStore(true); err != nil {
		return nil, err
	}
	if space, err = work.Space(); err != nil {
		return nil, err
	}
	if err := space.Remove(ctx, c.Bundle); err != nil {
		return nil, err
	}
	return bundleRemoved{at.BundleID, at.Version, at.ID.String(), len(at.Previous), find.InUser}, nil
}

// forget removes a bundle's refs from the store, that of its manifest first: without it, nothing finds the bundle.
func (c *bundleRemoveRun) forget(ctx context.Context, work *paths.Workspace) (cli.Answer, error) {
	found, err := work.Find(ctx, c.Bundle)
	if err == nil {
		err = found.Read(ctx)
	}
	if err != nil {
		return nil, err
	}
	store, err := work.OpenStore(true)
	if err != nil {
		return nil, err
	}
	name := install.Ref(found.Bundle.ID)
	if found.V1 != nil {
		name = install.V1Ref(found.Bundle.ID)
	}
	if err := work.App.Confirm(ctx, fmt.Sprintf("remove %s@%s from the store?", found.Bundle.BundleID,
		found.Bundle.Version)); err != nil {
		return nil, err
	}
	for _, ref := range []string{name, name + "/files", name + "/evidence"} {
		old, err := store.Ref(ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = store.SetRef(ctx, ref, old, cas.ID{})
		}
		if err != nil {
			return nil, err
		}
	}
	return bundleRemoved{found.Bundle.BundleID, found.Bundle.Version, found.Bundle.ID.String(), 0, find.InStore}, nil
}

type bundleRollbackRun struct {
	Bundle string `arg:"" complete:"installed" help:"Installed bundle's id."`
	To     string `arg:"" optional:"" name:"version" complete:"version" help:"Version, or digest of its manifest."`
	spaces.SignerFlags
}

// CompleteInstalled offers the ids of installed bundles.
func CompleteInstalled(ctx context.Context, a *cli.App) []cli.Candidate {
	return cli.Offer(allInstalled(ctx, a), func(at *install.Installed) (string, string) {
		return at.BundleID, at.Version
	})
}

// CompleteVersions offers the earlier versions of the installed bundle that args names.
func CompleteVersions(ctx context.Context, a *cli.App, args []string) (out []cli.Candidate) {
	for _, at := range allInstalled(ctx, a) {
		if slices.Contains(args, at.BundleID) {
			out = append(out, cli.Offer(at.Previous, func(v install.Version) (string, string) {
				return v.Version, at.BundleID + " " + v.ID.Short()
			})...)
		}
	}
	return out
}

func allInstalled(ctx context.Context, a *cli.App) []*install.Installed {
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil
	}
	defer b.Close()
	all, _ := b.Finder(ctx).AllInstalled(ctx)
	return all
}

func (c *bundleRollbackRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	work, vouching, err := c.Open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	space, err := work.Space()
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
	if err := app.Confirm(ctx, fmt.Sprintf("roll %s back from %s to %s?", at.BundleID, at.Version,
		to.Version)); err != nil {
		return nil, err
	}
	store, err := work.OpenStore(true)
	if err != nil {
		return nil, err
	}
	old, err := bundle.ReadStored(ctx, store, store, to.ID)
	if err != nil {
		return nil, err
	}
	if space, _, err = vouching.Space(ctx, work, old.FileList); err != nil {
		return nil, err
	}
	progress := app.Progress("verifying", old.Bytes)
	defer progress.Done()
	vouching.Options.Progress = progress.Reached()
	r, err := space.Rollback(ctx, c.Bundle, to.ID, vouching.Options)
	if err != nil {
		return nil, err
	}
	return newBundleInstalled(r, at), nil
}

// target returns the version to go back to: the one that the argument names, or the first one below the installed
// version.
func (c *bundleRollbackRun) target(at *install.Installed) (install.Version, error) {
	var fit []install.Version
	for _, p := range at.Previous {
		switch {
		case c.To == "" && manifest.CompareVersions(p.Version, at.Version) < 0 && len(fit) == 0, c.To != "" &&
			(c.To == p.Version || c.To == p.ID.String()):
			fit = append(fit, p)
		}
	}
	var failure *fault.Error
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		failure = fault.New(fault.Ambiguous, "%s@%s is ambiguous: give the digest of one of these bundles",
			at.BundleID, c.To)
	case c.To == at.Version || c.To == at.ID.String():
		failure = fault.New(fault.Validation, "%s@%s is already installed", at.BundleID, at.Version)
	case c.To == "":
		failure = fault.New(fault.NotFound, "no version of %q before %s was installed", at.BundleID, at.Version)
	default:
		failure = fault.New(fault.NotFound, "%q was never installed as %q", at.BundleID, c.To)
	}
	for _, p := range at.Previous {
		failure.Because(p.Version + "  " + p.ID.String())
	}
	return install.Version{}, failure.On("bundle", at.BundleID)
}
