package git

import (
	"bytes"
	"context"
	"os"
	"path"
	"slices"

	"github.com/rye-build/rye/cas/fault"
)

// maxUnpacked is how many files Unpack writes at most.
const maxUnpacked = 100_000

// maxTarget is the longest target of a symbolic link.
const maxTarget = 4096

// Unpack writes the files below a directory of the commit to root, which is empty. Symbolic links are written as they
// are: root keeps every later access inside. It leaves out what left reports, by the last segment of its path.
func (k *Commit) Unpack(ctx context.Context, dir string, root *os.Root, left func(name string) bool) error {
	at := entry{mode: modeDir, name: k.tree}
	if dir != "" && dir != "." {
		var err error
		if at, err = k.entry(ctx, dir); err != nil {
			return err
		}
		if at.mode != modeDir {
			return pathError(dir, at.what())
		}
	}
	u := &unpacking{Commit: k, root: root, left: left}
	return u.dir(ctx, at.name, ".", 0)
}

type unpacking struct {
	*Commit
	root  *os.Root
	left  func(string) bool
	files int
	bytes int64
}

func (u *unpacking) dir(ctx context.Context, tree, dir string, deep int) error {
	if deep > maxDeep {
		return pathError(dir, "nested too deeply")
	}
	entries, err := u.readTree(ctx, tree)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == "." || name == ".." {
			return objectError(tree, errTree)
		}
		if u.left(name) {
			continue
		}
		if err := u.write(ctx, path.Join(dir, name), entries[name], deep); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) write(ctx context.Context, name string, e entry, deep int) error {
	switch e.mode {
	case modeDir:
		if err := u.root.Mkdir(name, 0o700); err != nil {
			return err
		}
		return u.dir(ctx, e.name, name, deep+1)
	case modeModule:
		return pathError(name, e.what())
	}
	if u.files++; u.files > maxUnpacked {
		return fault.New(fault.Limit, "the directory has more than %d files", maxUnpacked).On("limit", maxUnpacked)
	}
	if e.mode == modeLink {
		var target bytes.Buffer
		if err := u.object(ctx, name, e.name, "blob", maxTarget, &target); err != nil {
			return err
		}
		return u.root.Symlink(target.String(), name)
	}
	perm := os.FileMode(0o600)
	if e.mode == modeExec {
		perm = 0o700
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err = u.object(ctx, name, e.name, "blob", MaxFetched-u.bytes, f); err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			u.bytes += info.Size()
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
