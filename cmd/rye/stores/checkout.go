package stores

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeCheckoutRun struct {
	objectArg
	Dir   string `arg:"" complete:"dir" help:"Directory to create."`
	Force bool   `help:"Replace an existing directory."`
}

type storeCheckoutAnswer struct {
	Dir   string     `json:"dir"`
	Root  cas.Digest `json:"root"`
	Files int64      `json:"files"`
	Bytes int64      `json:"bytes"`
}

func (s storeCheckoutAnswer) Text(t *cli.Terminal) {
	t.Note("made %s, %s, of tree %s", fault.Count(s.Files, "file"), cli.ByteSize(float64(s.Bytes)), s.Root.Short())
}

func (c *storeCheckoutRun) Run(ctx context.Context, a *cli.App) (ans cli.Answer, err error) {
	err = c.read(ctx, a, cas.TreeKind, func(s *disk.Store, id cas.ID) (err error) {
		ans, err = c.checkout(ctx, a, s, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ans, nil
}

func (c *storeCheckoutRun) checkout(ctx context.Context, app *cli.App, store *disk.Store,
	root cas.ID) (ans storeCheckoutAnswer, err error) {
	if root.Kind != cas.TreeKind {
		return ans, paths.NotATree(root).Try("rye store cat " + fault.Quote(c.Object))
	}
	dir := app.Absolute(cli.Setting{Value: c.Dir})
	if dir.Err != nil {
		return ans, dir.Err
	}
	// The pin keeps gc from removing the tree meanwhile.
	release, err := store.Pin(ctx, root)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		app.Term.Detail("the store is read-only: another process may run gc meanwhile")
	case err != nil:
		return ans, err
	default:
		defer func() { err = errors.Join(err, release()) }()
	}
	p := app.Progress("writing", 0)
	defer p.Done()
	o := worktree.CheckoutOptions{Force: c.Force, Forbidden: []string{app.Home().Value},
		Closed: irreplaceable(app, store.Dir())}
	if p != nil {
		o.Progress = func(_, bytes int64) { p.Sum.Store(bytes) }
		p.Expect(ctx, func(ctx context.Context) (sum int64, err error) {
			err = cas.Walk(ctx, store, root, func(_ string, e cas.Entry) error { sum += e.Size; return nil })
			return sum, err
		})
	}
	r, err := worktree.Checkout(ctx, store, root, dir.Value, o)
	if place, ok := errors.AsType[*worktree.DestinationError](err); ok && place.Force {
		return ans, place.Fault().Try("rye store checkout --force " + fault.Quote(c.Object) + " " +
			fault.Quote(place.Path))
	}
	return storeCheckoutAnswer{dir.Value, root.Digest, r.Files, r.Bytes}, err
}

// irreplaceable returns the directories that no checkout may replace: stores, the user space and the state directory.
func irreplaceable(a *cli.App, store string) []string {
	dirs := []string{store, a.DefaultStore().Value, cli.UserSpace(a.UserBase()).Value, a.Dir(cli.StatePlace).Value}
	if v := a.Env("RYE_STORE"); v != "" {
		dirs = append(dirs, a.FromEnv("RYE_STORE", v).Value)
	}
	return dirs
}
