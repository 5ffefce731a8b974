package source

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/project"
)

// This file reads the plugin in an archive that another program made. It is unpacked into a private directory and then
// read as one in a directory is.

// Archives are the archives of other programs that a command has read. Sources that share them read each one once:
// what the user was shown is what is added, whatever the source has by then. The zero value is ready to use. Close
// them after the Sources.
type Archives struct{ all memo[string, *unpacked] }

// Close removes the unpacked archives.
func (a *Archives) Close() error {
	var wrong []error
	for _, u := range a.all.found(func(string) bool { return true }) {
		if u != nil {
			wrong = append(wrong, u.close())
		}
	}
	return errors.Join(wrong...)
}

// An unpacked archive is a plugin in a private directory.
type unpacked struct {
	dir   string
	plain *plain // nil for a signed plugin
}

func (u *unpacked) close() error {
	var err error
	if u.plain != nil {
		err = u.plain.close()
	}
	return errors.Join(err, os.RemoveAll(u.dir))
}

// archived reports whether a source is an archive: a file, or an address that isn't a repository.
func (s *Sources) archived(src project.Source) bool {
	_, ofGit := src.Git()
	_, registered := src.Registry()
	if _, image := src.OCI(); src.Index || ofGit || image || registered {
		return false
	}
	if src.Remote() {
		return true
	}
	dir, err := isDir(s.path(src.Where))
	return err == nil && !dir
}

// packed opens an archive. It returns the plugin in one that another program made, and otherwise a reader of the
// archive.
func (s *Sources) packed(ctx context.Context, src project.Source) (*unpacked, io.ReadCloser, error) {
	var ours io.ReadCloser
	u, err := s.archives.all.get(ctx, s.place(src), func() (*unpacked, error) {
		r, size, err := s.open(ctx, src)
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(r)
		if first, _ := in.Peek(foreign.MagicSize); !foreign.Is(first) {
			ours = opened{in, r}
			return nil, nil
		}
		defer r.Close()
		return readPacked(ctx, &counted{in, s.progress}, size, src.Where)
	})
	if u != nil || ours != nil || err != nil {
		return u, ours, err
	}
	ours, _, err = s.open(ctx, src)
	return nil, ours, err
}

// An opened reader closes what it reads from.
type opened struct {
	io.Reader
	io.Closer
}

// readPacked unpacks an archive whose announced size may be unknown (-1).
func readPacked(ctx context.Context, r io.Reader, size int64, where string) (_ *unpacked, err error) {
	archive, err := plugin.ReadArchive(ctx, r, size, where)
	if err != nil {
		return nil, err
	}
	u := new(unpacked)
	if u.dir, err = osfile.TempDir("plugin"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(u.dir))
		}
	}()
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return nil, err
	}
	if err = archive.Unpack(ctx, root); err == nil {
		if _, unsigned := root.Lstat(bundle.PluginManifest); unsigned != nil {
			u.plain, err = readPlain(ctx, root)
		}
	}
	if u.plain == nil {
		err = errors.Join(err, root.Close())
	}
	return u, err
}
