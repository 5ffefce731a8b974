package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeRefsRun struct {
	Name   string `arg:"" optional:"" complete:"object" help:"Name of a ref."`
	Set    string `placeholder:"OBJECT" complete:"object" xor:"change" help:"Point the ref at OBJECT."`
	Delete bool   `xor:"change" help:"Delete the ref."`
	Expect string `placeholder:"OBJECT" complete:"object" help:"Change it only if it is OBJECT (\"none\": is unset)."`
}

type refLine struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind"`
	Digest cas.Digest `json:"digest"`
}

type storeRefsAnswer struct {
	Refs []refLine `json:"refs"`
}

func (s storeRefsAnswer) Text(t *cli.Terminal) {
	rows := make([][]string, len(s.Refs))
	for i, r := range s.Refs {
		rows[i] = []string{r.Name, r.Kind, r.Digest.String()}
	}
	t.Rows(rows)
}

func (c *storeRefsRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	open := paths.ReadStore
	if c.Set != "" || c.Delete {
		open = paths.HaveStore
	}
	store, err := open(app)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	ans := storeRefsAnswer{Refs: []refLine{}}
	if c.Set == "" && !c.Delete {
		if c.Expect != "" {
			return nil, fault.New(fault.Validation, "--expect goes with --set or --delete")
		}
		refs, err := store.Refs()
		for _, r := range refs {
			if c.Name == "" || c.Name == r.Name {
				ans.Refs = append(ans.Refs, refLine{r.Name, r.ID.Kind.String(), r.ID.Digest})
			}
		}
		if c.Name != "" && len(ans.Refs) == 0 && err == nil {
			if _, err = store.Ref(c.Name); errors.Is(err, fs.ErrNotExist) {
				err = noRef(store, c.Name)
			}
		}
		return ans, err
	}
	if c.Name == "" {
		return nil, fault.New(fault.Validation, "expected the name of a ref").Try("rye store refs")
	}
	var want cas.ID
	if c.Set != "" {
		if want, err = c.whole(ctx, store, c.Set, "--set"); err != nil {
			return nil, err
		}
	}
	switch c.Expect {
	case "":
		if _, err := store.Ref(c.Name); c.Delete && errors.Is(err, fs.ErrNotExist) {
			return nil, noRef(store, c.Name)
		}
		err = store.PutRef(ctx, c.Name, want)
	case "none":
		err = store.SetRef(ctx, c.Name, cas.ID{}, want)
	default:
		var old cas.ID
		if old, err = c.expected(ctx, store); err == nil {
			err = store.SetRef(ctx, c.Name, old, want)
		}
	}
	if err != nil {
		return nil, err
	}
	if c.Set != "" {
		ans.Refs = append(ans.Refs, refLine{c.Name, want.Kind.String(), want.Digest})
	} else {
		app.Term.Note("deleted the ref %s", fmt.Sprintf("%q", c.Name))
	}
	return ans, nil
}

// expected returns the object of --expect. It doesn't look up a complete digest, because the object may be lost, or
// collected since another process set the ref.
func (c *storeRefsRun) expected(ctx context.Context, s *disk.Store) (cas.ID, error) {
	d, err := cas.ParseDigest(c.Expect)
	if err != nil {
		return c.whole(ctx, s, c.Expect, "--expect")
	}
	now, err := s.Ref(c.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return cas.ID{Kind: cmp.Or(now.Kind, cas.Blob), Digest: d}, err
}

// whole finds the object for a change. It refuses prefixes of digests, because they may match another object
// tomorrow.
func (c *storeRefsRun) whole(ctx context.Context, s *disk.Store, arg, flag string) (cas.ID, error) {
	o, err := paths.Resolve(ctx, s, arg)
	if err == nil && o.Part {
		err = fault.New(fault.Validation, "%s takes a ref or a whole digest, but %q is only a prefix", flag, arg).
			Because("it is "+o.Id.String()).On("digest", o.Id.Digest.String())
	}
	return o.Id, err
}

func noRef(s *disk.Store, name string) error {
	missing := fault.New(fault.NotFound, "the store has no ref %q", name).On("ref", name).On("store", s.Dir())
	return paths.SuggestRef(s, name, missing)
}
