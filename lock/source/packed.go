package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/project"
)

// This file reads the plugin in an archive that another program made. It is unpacked into a private directory and then
// read as one in a directory is.

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

// packed opens an archive. It returns the plugin in one that another program made, read once, and otherwise a reader
// of the archive.
func (s *Sources) packed(ctx context.Context, src project.Source) (*plain, io.ReadCloser, error) {
	for _, p := range s.plains.found(func(where string) bool { return where == src.Where }) {
		return p, nil, nil
	}
	r, size, err := s.open(ctx, src)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(r)
	if first, _ := in.Peek(foreign.MagicSize); !foreign.Is(first) {
		return nil, opened{in, r}, nil
	}
	defer r.Close()
	p, err := s.plains.get(ctx, src.Where, func() (*plain, error) {
		p, err := readPacked(ctx, &counted{in, s.progress}, size, src.Where)
		if refusal, ok := errors.AsType[*fault.Error](err); ok && len(refusal.Hint) == 0 {
			refusal.Try("rye docs unsigned-plugins")
		}
		return p, err
	})
	return p, nil, err
}

// An opened reader closes what it reads from.
type opened struct {
	io.Reader
	io.Closer
}

// readPacked reads the plugin in an archive whose announced size may be unknown (-1).
func readPacked(ctx context.Context, r io.Reader, size int64, where string) (*plain, error) {
	// One more than an archive may have, so that foreign.Open refuses it.
	text := bytes.NewBuffer(make([]byte, 0, max(0, min(size, foreign.MaxArchive))+bytes.MinRead))
	if _, err := text.ReadFrom(io.LimitReader(r, foreign.MaxArchive+1)); err != nil {
		return nil, err
	}
	archive, err := foreign.Open(text.Bytes())
	if err != nil {
		return nil, err
	}
	entries, err := archive.List(ctx)
	if err != nil {
		return nil, err
	}
	top, err := topOf(entries, where)
	if err != nil {
		return nil, err
	}
	temp, err := osfile.TempDir("plugin")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(temp)
	if err == nil {
		u := &unpacking{root: root, top: top, entries: entries}
		if err = u.unpack(ctx, archive); err == nil {
			var p *plain
			if p, err = readPlain(ctx, root); err == nil {
				p.temp = temp
				return p, nil
			}
		}
		root.Close()
	}
	return nil, errors.Join(err, os.RemoveAll(temp))
}

// topOf returns the directory of the plugin in an archive: its top, or the one folder there. Programs that pack a
// repository put its files into a folder.
func topOf(entries []foreign.Entry, where string) (string, error) {
	has := map[string]bool{}
	top, several, skills := "", false, false
	for _, e := range entries {
		has[e.Path] = true
		skills = skills || path.Base(e.Path) == skill.Main
		first, _, inside := strings.Cut(e.Path, "/")
		switch {
		case portable.Droppings(first):
		case !inside || top != "" && first != top:
			several = true
		default:
			top = first
		}
	}
	if has[plugin.ManifestFile] {
		top, several = ".", false
	}
	signed := path.Join(top, bundle.PluginManifest)
	switch at := path.Join(top, plugin.ManifestFile); {
	case !several && has[at] && has[signed]:
		return "", fault.New(fault.Validation, "the archive has a signed plugin: it has %s", signed).
			On("reason", "signed").On("file", signed).
			Because("a signed plugin comes from a directory, a repository, an image, or rye bundle export",
				"unpack the archive, and add the directory").Try("rye docs plugins")
	case !several && has[at]:
		return top, nil
	}
	none := fault.New(fault.NotFound, "the archive has no plugin: no %s at its top or in its only folder",
		plugin.ManifestFile).On("reason", "no-plugin")
	if skills {
		none.Try(fault.Command("rye import skill", where))
	}
	return "", none.Try("rye docs unsigned-plugins")
}

// An unpacking writes the entries below a folder of an archive into a directory.
type unpacking struct {
	root    *os.Root
	top     string
	entries []foreign.Entry

	links  [][2]string // paths and targets
	length int         // bytes of the targets
}

// maxTarget is the longest target of a symbolic link.
const maxTarget = 4096

// unpack writes the files, and then the symbolic links as they are: no file is written through one, and root keeps
// every later access inside.
func (u *unpacking) unpack(ctx context.Context, archive foreign.Archive) error {
	for _, e := range u.entries {
		if _, in := u.inside(e.Path); in && (e.Kind == foreign.HardLink || e.Kind == foreign.Special) {
			return fault.New(fault.Validation, "%q is a hard link or a special file", fault.Clip(e.Path, 1000)).
				On("reason", "special").On("file", e.Path).
				Because("an archive of a plugin has files and symbolic links alone")
		}
	}
	err := archive.Read(ctx, func(i int) bool {
		_, in := u.inside(u.entries[i].Path)
		return in
	}, func(i int, r io.Reader) error {
		e := &u.entries[i]
		name, _ := u.inside(e.Path)
		if e.Kind == foreign.Link {
			return u.link(name, r)
		}
		return unnameable(e.Path, u.write(name, e.Kind == foreign.Executable, cas.Until(ctx, r)))
	})
	if err != nil {
		return err
	}
	for _, link := range u.links {
		err := u.root.MkdirAll(path.Dir(link[0]), 0o700)
		if err == nil {
			err = u.root.Symlink(link[1], link[0])
		}
		if err := unnameable(link[0], err); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the path of an entry below the folder, and whether it is there.
func (u *unpacking) inside(name string) (string, bool) {
	if u.top == "." {
		return name, true
	}
	return strings.CutPrefix(name, u.top+"/")
}

func (u *unpacking) link(name string, r io.Reader) error {
	target, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
	if err != nil {
		return err
	}
	if u.length += len(target); len(target) > maxTarget || u.length > foreign.MaxNames {
		return fault.New(fault.Validation, "%q is a symbolic link with a long target", fault.Clip(name, 1000)).
			On("reason", "link").On("file", name)
	}
	u.links = append(u.links, [2]string{name, string(target)})
	return nil
}

func (u *unpacking) write(name string, exec bool, r io.Reader) error {
	if err := u.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	perm := os.FileMode(0o600)
	if exec {
		perm = 0o700
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// unnameable refuses an entry that can't be written because of its name: it is a file and a directory, or this system
// has no such names.
func unnameable(name string, err error) error {
	for _, reason := range []error{fs.ErrExist, fs.ErrInvalid, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG} {
		if errors.Is(err, reason) {
			return fault.New(fault.Validation, "%q can't be unpacked: %v", fault.Clip(name, 1000), reason).From(err).
				On("reason", "path").On("file", name)
		}
	}
	return err
}
