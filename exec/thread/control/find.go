package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Match returns the one of ids that a name means: the id itself, or the one that begins with it. It is "" if none
// does.
func Match(name string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == name {
			return id, nil
		}
		if name != "" && strings.HasPrefix(id, name) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fault.New(fault.Ambiguous, "%q is ambiguous: it matches %d threads", name, len(found)).On("threads",
		found).
		List(found...).Try("rye thread list")
}

// Find returns the row of the thread that a name means. An id may be that of a thread of another project.
func (c *Controller) Find(ctx context.Context, name string) (*roster.Thread, error) {
	if name == "" {
		return nil, fault.New(fault.NotFound, "the name of the thread is empty").Try("rye thread list")
	}
	row, err := FindRow(ctx, c.Roster, name)
	if err == nil || fault.CodeOf(err) != fault.NotFound {
		return row, err
	}
	rows, err := c.Roster.Threads(ctx, roster.Filter{Root: c.Root})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	id, err := Match(name, ids)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, c.missing(name, ids)
	}
	return FindRow(ctx, c.Roster, id)
}

// missing returns the error for a name that no thread has.
func (c *Controller) missing(name string, ids []string) error {
	err := Unregistered(c.Root, name)
	if err == nil {
		f := fault.New(fault.NotFound, "no thread %q", name).On("thread", name)
		if meant := suggest.Names(name, ids); len(meant) > 0 {
			f.Because("did you mean " + meant[0] + "?")
		}
		err = f.Try("rye thread list --all")
	}
	return err
}

// Unregistered is the error for a thread that has a directory in the project with this root, "" for none, and no row
// in the user's registry; nil for any other.
func Unregistered(root, name string) error {
	if root == "" || transcript.CheckThread(name) != nil {
		return nil
	}
	dir := filepath.Join(root, ".ai", "threads", filepath.FromSlash(name))
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	next := "rye thread show " + fault.Quote(name)
	_, err = os.ReadDir(dir)
	hidden := errors.Is(err, fs.ErrPermission)
	if hidden {
		next = "rye thread list --all"
	}
	switch {
	case hidden || osfile.OwnedByOther(info):
		return fault.New(fault.Denied, "the thread %s belongs to another user", name).On("thread", name).
			Because("only the user who started a thread can wait for it, end it or resume it").Try(next)
	case !transcript.Exists(dir):
		return nil
	}
	return fault.New(fault.NotFound, "the thread %s is not registered on this machine", name).On("thread", name).
		Because("its directory was copied here, or the state directory was lost: its transcript can still be read").
		Try(next)
}

// FindAll returns the rows of several threads, each once.
func (c *Controller) FindAll(ctx context.Context, names []string) (rows []*roster.Thread, err error) {
	seen := map[string]bool{}
	for _, name := range names {
		row, err := c.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		if !seen[row.ID] {
			seen[row.ID] = true
			rows = append(rows, row)
		}
	}
	return rows, nil
}
