package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/worktree"
)

func storeCheckoutCommand() command {
	return command{
		path: "store checkout", group: "store", help: "Make a directory of a tree, verified.",
		more: "DIR must not exist, or be empty, unless --force. It is built beside, and gets its name when every byte of it has been " +
			"verified: it is complete or it isn't there. Nothing is made in a store, in the user space or where rye keeps its state.\n\nExamples:\n\n    rye store checkout app ./copy\n    rye store checkout app:lib ./lib --force",
		aka:    []string{"checkout", "store export", "store extract"},
		new:    func() runner { return new(storeCheckoutRun) },
		schema: "store-checkout/1", output: storeCheckoutAnswer{},
	}
}

type storeCheckoutRun struct {
	Object string `arg:"" help:"A digest, the beginning of one, or a ref; :PATH goes into a tree."`
	Dir    string `arg:"" complete:"dir" help:"The directory to make."`
	Force  bool   `help:"Replace what is there."`
}

type storeCheckoutAnswer struct {
	Dir   string     `json:"dir"`
	Root  cas.Digest `json:"root"`
	Files int64      `json:"files"`
	Bytes int64      `json:"bytes"`
}

func (s storeCheckoutAnswer) text(t *terminal) {
	t.note("made %s, %s, of tree %s", fault.Count(s.Files, "file"), byteSize(float64(s.Bytes)), s.Root.Short())
}

func (c *storeCheckoutRun) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name != "object" {
		return nil
	}
	return completeObjects(a)
}

func (c *storeCheckoutRun) run(ctx context.Context, a *app) (ans answer, err error) {
	s, err := a.readStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	what, err := resolve(ctx, s, c.Object, cas.TreeKind, cas.Blob, cas.Document)
	if err != nil {
		return nil, err
	}
	if what.id.Kind != cas.TreeKind {
		return nil, &fault.Error{Code: fault.Validation, Text: what.id.String() + " is not a tree", Hint: []string{"rye store cat " + fault.Quote(c.Object)}}
	}
	dir := a.absolute(setting{value: c.Dir})
	if dir.err != nil {
		return nil, dir.err
	}
	// gc leaves alone what is being read.
	release, err := s.Pin(ctx, what.id)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		a.term.detail("the store can't be written to, so nothing keeps gc from running meanwhile")
	case err != nil:
		return nil, lost(err)
	default:
		defer func() { err = errors.Join(err, release()) }()
	}
	p := a.progress("writing", 0)
	defer p.Done()
	o := worktree.CheckoutOptions{Force: c.Force, Forbidden: []string{a.home().value}, Closed: a.irreplaceable(s.Dir())}
	if p != nil {
		o.Progress = func(_, bytes int64) { p.done.Store(bytes) }
		p.Expect(ctx, func(ctx context.Context) (sum int64, err error) {
			err = cas.Walk(ctx, s, what.id, func(_ string, e cas.Entry) error { sum += e.Size; return nil })
			return sum, err
		})
	}
	r, err := worktree.Checkout(ctx, s, what.id, dir.value, o)
	if place, ok := errors.AsType[*worktree.DestinationError](err); ok && place.Force {
		f := classify(err)
		f.Hint = []string{"rye store checkout --force " + fault.Quote(c.Object) + " " + fault.Quote(place.Path)}
		return nil, f
	}
	if err != nil {
		return nil, lost(err)
	}
	return storeCheckoutAnswer{dir.value, what.id.Digest, r.Files, r.Bytes}, nil
}

// irreplaceable are the directories that no checkout may cost: the stores that commands use, and what can't be made again.
func (a *app) irreplaceable(store string) []string {
	dirs := []string{store, a.defaultStore().value, userSpace(a.userBase()).value, a.dir(statePlace).value}
	if v := a.env("RYE_STORE"); v != "" {
		dirs = append(dirs, a.fromEnv("RYE_STORE", v).value)
	}
	return dirs
}

// lost says what to do about an object that a ref or a tree names and the store lacks.
func lost(err error) error {
	if _, ofFile := errors.AsType[*fs.PathError](err); ofFile || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f := classify(err)
	f.Hint = []string{"rye store fsck"}
	return f
}
