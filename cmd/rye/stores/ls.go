package stores

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeLsRun struct{ optionalObject }

// An entryLine describes one object: an entry of a tree, or of the store.
type entryLine struct {
	Path   string     `json:"path,omitempty"`
	Kind   string     `json:"kind"`
	Mode   string     `json:"mode,omitempty"`
	Digest cas.Digest `json:"digest"`
	Size   *int64     `json:"size,omitempty"` // of a file or object
}

type storeLsAnswer struct {
	Entries []entryLine `json:"entries"`
}

// lineOf describes an entry of a tree.
func lineOf(path string, e *cas.Entry) entryLine {
	l := entryLine{Path: path, Kind: e.ID().Kind.String(), Mode: e.Mode.String(), Digest: e.Digest}
	if e.Mode != cas.Dir {
		l.Size = &e.Size
	}
	return l
}

func (l entryLine) row() []string {
	size, first, name := "", cmp.Or(l.Mode, l.Kind), l.Path
	if l.Size != nil {
		size = strconv.FormatInt(*l.Size, 10)
	}
	if l.Mode == cas.Dir.String() {
		name += "/"
	}
	digest := l.Digest.Short()
	if name == "" {
		return []string{first, size, l.Digest.String()}
	}
	return []string{first, size, digest, name}
}

func (s storeLsAnswer) Text(t *cli.Terminal) {
	rows := make([][]string, len(s.Entries))
	for i, e := range s.Entries {
		rows[i] = e.row()
	}
	t.Rows(rows)
}

func (c *storeLsRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Object == "" {
		return c.all(ctx, a)
	}
	ans := storeLsAnswer{Entries: []entryLine{}}
	err := objectArg(c.optionalObject).read(ctx, a, cas.TreeKind, func(s *disk.Store, id cas.ID) error {
		entries, err := paths.ReadTree(ctx, s, id)
		for i := range entries {
			ans.Entries = append(ans.Entries, lineOf(entries[i].Name, &entries[i]))
		}
		return err
	})
	return ans, err
}

// all lists the store. A damaged pack doesn't hide the objects of others.
func (c *storeLsRun) all(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, err := paths.ReadStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ans := storeLsAnswer{Entries: []entryLine{}}
	var errs []error
	for info, err := range s.List(ctx) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ans.Entries = append(ans.Entries, entryLine{Kind: info.Kind.String(), Digest: info.Digest, Size: &info.Size})
	}
	return ans, errors.Join(errs...)
}
