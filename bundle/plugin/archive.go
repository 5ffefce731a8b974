package plugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// An Archive is a zip or a tar.gz that another program made, with one plugin: at its top, or in its only folder, as
// programs that pack a repository write it.
type Archive struct {
	foreign.Archive
	entries []foreign.Entry
	top     string // the directory of the plugin
}

// ReadArchive reads an archive whose announced size may be unknown (-1). where is the archive in hints.
func ReadArchive(ctx context.Context, r io.Reader, size int64, where string) (*Archive, error) {
	a, err := readArchive(ctx, r, size, where)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && len(refusal.Hint) == 0 {
		refusal.Try("rye docs unsigned-plugins")
	}
	return a, err
}

func readArchive(ctx context.Context, r io.Reader, size int64, where string) (*Archive, error) {
	// One more than an archive may have, so that foreign.Open refuses it.
	text := bytes.NewBuffer(make([]byte, 0, max(0, min(size, foreign.MaxArchive))+bytes.MinRead))
	if _, err := text.ReadFrom(io.LimitReader(r, foreign.MaxArchive+1)); err != nil {
		return nil, err
	}
	opened, err := foreign.Open(text.Bytes())
	if err != nil {
		return nil, err
	}
	a := &Archive{Archive: opened}
	if a.entries, err = opened.List(ctx); err != nil {
		return nil, err
	}
	a.top, err = topOf(a.entries, where)
	return a, err
}

// topOf returns the directory of the plugin in an archive.
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
	switch {
	case has[ManifestFile]:
		return ".", nil
	case !several && has[path.Join(top, ManifestFile)]:
		return top, nil
	}
	none := fault.New(fault.NotFound, "the archive has no plugin: no %s at its top or in its only folder",
		ManifestFile).On("reason", "no-plugin")
	if skills {
		none.Try(fault.Command("rye import skill", where))
	}
	return "", none.Try("rye docs unsigned-plugins")
}

// File returns the bytes of a file of the plugin with at most that many; nil without such a file.
func (a *Archive) File(ctx context.Context, name string, most int64) (text []byte, err error) {
	err = a.Read(ctx, func(i int) bool {
		at, in := a.inside(a.entries[i].Path)
		return in && at == name && a.entries[i].Kind <= foreign.Executable && a.entries[i].Size <= most
	}, func(_ int, r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	})
	return text, err
}

// inside returns the path of an entry below the plugin's directory, and whether it is there.
func (a *Archive) inside(name string) (string, bool) {
	if a.top == "." {
		return name, true
	}
	return strings.CutPrefix(name, a.top+"/")
}

// Unpack writes the plugin into an empty directory.
func (a *Archive) Unpack(ctx context.Context, root *os.Root) error {
	err := (&unpacking{Archive: a, root: root}).unpack(ctx)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && len(refusal.Hint) == 0 {
		refusal.Try("rye docs unsigned-plugins")
	}
	return err
}

// An unpacking writes the plugin of an archive.
type unpacking struct {
	*Archive
	root   *os.Root
	links  [][2]string // paths and targets
	length int         // bytes of the targets
}

// maxTarget is the longest target of a symbolic link.
const maxTarget = 4096

// unpack writes the files, and then the symbolic links as they are: no file is written through one, and root keeps
// every later access inside.
func (u *unpacking) unpack(ctx context.Context) error {
	for _, e := range u.entries {
		if _, in := u.inside(e.Path); in && (e.Kind == foreign.HardLink || e.Kind == foreign.Special) {
			return fault.New(fault.Validation, "%q is a hard link or a special file", fault.Clip(e.Path, 1000)).
				On("reason", "special").On("file", e.Path).
				Because("an archive of a plugin has files and symbolic links alone")
		}
	}
	err := u.Read(ctx, func(i int) bool {
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
