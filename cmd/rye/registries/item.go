package registries

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

// isRef reports whether an argument names an item and not a bundle.
func isRef(text string) bool {
	return strings.Contains(text, ":") && !strings.HasPrefix(text, "blake3:") && !find.IsPath(text)
}

// writeItem writes the archive of a bundle of one item of the project, signed by the user's key, to a file in a
// directory of its own. It leaves nothing in the project. The same item gives the same bytes, so that a publish that
// was interrupted can be made again: the signature has the time of the item's own.
func (c *publishRun) writeItem(ctx context.Context, app *cli.App, w *paths.Workspace, file *os.File) error {
	items, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return err
	}
	defer items.Close()
	it, err := items.FindNamed(ctx, c.Bundle)
	if err == nil && it.Space != items.Project {
		err = fault.New(fault.Denied, "%q is not an item of this project: it is in %s", it.Ref, it.Space.Label).
			On("ref", it.Ref.String()).On("space", it.Space.Label).Try("rye show " + fault.Quote(it.Ref.String()))
	}
	if err != nil {
		return err
	}
	if err := items.Admit.Require(ctx, it, policy.ToUse); err != nil {
		f := fault.Wrap(err, "%q can't be published: %s", it.Ref, fault.Of(err).Text)
		if len(f.Hint) == 0 {
			f.Try(fault.Command("rye sign", it.Ref.String()))
		}
		return f
	}
	dir := w.Root.Root
	own, err := recipe.Read(dir)
	if err != nil {
		return err
	}
	id := cmp.Or(c.As, it.Ref.ID)
	if err := c.otherBundle(dir, id, own); err != nil {
		return err
	}
	wanted, err := create.ForItem(ctx, items.Admit, it, id, own)
	if err != nil {
		return err
	}
	key, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return err
	}
	trust, err := paths.OpenTrust(app)
	if err != nil {
		return err
	}
	below, _, err := w.Below(ctx, id, wanted.Requires)
	if err != nil {
		return err
	}
	store, err := disk.Open(filepath.Join(filepath.Dir(file.Name()), "store"), disk.Options{Create: true})
	if err != nil {
		return err
	}
	defer store.Close()
	made, err := create.Create(ctx, create.Options{Dir: dir, Recipe: wanted, Trust: trust.Exam(), Below: below,
		Listed: workspace.Listing(ctx, trust, dir).Listed, Store: store, Journal: w.Journal(), DryRun: true})
	if refused, ok := errors.AsType[*create.RefusedError](err); ok {
		e := fault.New(fault.Validation, "%q can't be published as the bundle %q", it.Ref, id).From(err).
			On("ref", it.Ref.String())
		for i := range refused.Problems {
			e.Because(refused.Problems[i].Error())
		}
		return e.Try(fault.Command("rye check", it.Ref.String()), "rye docs bundles")
	}
	if err != nil {
		return err
	}
	at := signedAt(it, app.Clock())
	if err := cosign.SignBeside(&made.Document, key.Private, trust.Exam().Find, at); err != nil {
		return err
	}
	body, err := made.Body()
	if err != nil {
		return err
	}
	return archive.Write(ctx, file, body, made.Signatures, store, signs.SignerKeys(app, made.Signatures)...)
}

// otherBundle refuses the id of a bundle that the project makes.
func (c *publishRun) otherBundle(dir, id string, own *recipe.Recipe) error {
	ids, err := find.InProjectIDs(dir)
	if err != nil {
		return err
	}
	if own != nil {
		ids = append(ids, own.ID)
		for _, need := range own.Requires {
			ids = append(ids, need.BundleID)
		}
	}
	if slices.Contains(ids, id) {
		return c.taken(id, "this project has a bundle of that id, or its bundle requires one")
	}
	if !strings.Contains(id, "/") {
		return fault.New(fault.Validation, "%q has no namespace: expected an id such as acme/base", id).
			Try(fault.Command("rye publish", c.Bundle, "--as", "NAMESPACE/"+id))
	}
	return nil
}

// taken returns the refusal of an id that another bundle has.
func (c *publishRun) taken(id, why string) error {
	return fault.New(fault.Conflict, "%q is the id of another bundle", id).Permanent().On("bundle", id).
		Because(why).Try(fault.Command("rye publish", c.Bundle, "--as", id+"-item"))
}

// signedAt returns the newest time in the signatures of an item, else now.
func signedAt(it *ai.Item, now time.Time) (at time.Time) {
	for _, line := range it.Signed.Lines {
		if line.Time.After(at) {
			at = line.Time
		}
	}
	if at.IsZero() {
		at = now.UTC().Truncate(time.Second)
	}
	return at
}
