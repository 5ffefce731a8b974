package worktree

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// tmpPrefix begins the names of directories in which trees are built. Import leaves them out.
const tmpPrefix = ".rye-tmp-"

// A DestinationError reports why Checkout can't create a directory at a path.
type DestinationError struct {
	Path  string
	Why   string
	Force bool // CheckoutOptions.Force allows it
}

func (e *DestinationError) Error() string { return fmt.Sprintf("%q %s", e.Path, e.Why) }

// Fault returns e with its code.
func (e *DestinationError) Fault() *fault.Error { return fault.New(fault.Denied, "%s", e).From(e) }

// A site is the hidden place next to its destination where a tree is built.
type site struct {
	dst     string
	base    string
	parent  *os.Root
	tmp     string   // in parent
	lock    *os.File // in tmp, locked; nil if the system can't lock files
	target  target   // tmp
	replace bool     // the destination is a directory that isn't empty
	done    bool
}

// openSite checks that dst may be created and creates the site.
func openSite(dst string, checkoutOptions CheckoutOptions) (*site, error) {
	abs, err := filepath.Abs(dst)
	if err != nil {
		return nil, err
	}
	site := &site{dst: abs, base: filepath.Base(abs)}
	if filepath.Dir(abs) == abs {
		return nil, &DestinationError{Path: abs, Why: "is the root of the file system"}
	}
	if err := forbidden(abs, checkoutOptions); err != nil {
		return nil, err
	}
	if site.parent, err = os.OpenRoot(filepath.Dir(abs)); err != nil {
		return nil, err
	}
	if err := site.begin(checkoutOptions); err != nil {
		site.parent.Close()
		return nil, err
	}
	return site, nil
}

// forbidden returns an error for the directories that checkoutOptions protects, for their parents, and for everything
// in directories that checkoutOptions closes, under any name.
func forbidden(abs string, checkoutOptions CheckoutOptions) error {
	fi, err := os.Stat(abs)
	is := func(dir string) bool {
		if dir == abs {
			return true
		}
		di, derr := os.Stat(dir)
		return err == nil && derr == nil && os.SameFile(fi, di)
	}
	for _, f := range slices.Concat(checkoutOptions.Forbidden, checkoutOptions.Closed) {
		if f == "" {
			continue
		}
		f, ferr := filepath.Abs(f)
		if ferr != nil {
			return ferr
		}
		if real, err := filepath.EvalSymlinks(f); err == nil {
			f = real
		}
		if slices.ContainsFunc(upwards(f), is) {
			return &DestinationError{Path: abs, Why: "is or contains a protected directory"}
		}
	}
	return closed(abs, checkoutOptions.Closed)
}

// closed returns an error for a path in a directory of list.
func closed(abs string, list []string) error {
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing can be created there either
	}
	if err != nil {
		return err
	}
	var shut []fs.FileInfo
	for _, dir := range list {
		if fi, err := os.Stat(dir); dir != "" && err == nil {
			shut = append(shut, fi)
		}
	}
	for _, dir := range upwards(parent) {
		fi, err := os.Stat(dir)
		if err == nil && slices.ContainsFunc(shut, func(s fs.FileInfo) bool { return os.SameFile(fi, s) }) {
			return &DestinationError{Path: abs, Why: fmt.Sprintf("lies in %q, where nothing is checked out", dir)}
		}
	}
	return nil
}

// upwards returns a directory and its parents.
func upwards(dir string) []string {
	all := []string{dir}
	for filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		all = append(all, dir)
	}
	return all
}

func (s *site) begin(checkoutOptions CheckoutOptions) error {
	fi, err := s.parent.Stat(".")
	if err != nil {
		return err
	}
	if why := untrusted(fi); why != "" {
		return &DestinationError{Path: filepath.Dir(s.dst), Why: why}
	}
	if err := s.look(checkoutOptions.Force); err != nil {
		return err
	}
	s.sweep()
	if err := s.claim(); err != nil {
		return err
	}
	open := openTarget
	if checkoutOptions.portable {
		open = openRootTarget
	}
	if s.target, err = open(s.parent, s.tmp); err != nil {
		return errors.Join(err, s.remove())
	}
	return nil
}

// lockName is a file in the directory where a tree is built, locked while it is built. A process that can lock it may
// remove the directory, and removes this file last, so that another process can continue an interrupted removal.
const lockName = "lock"

// claim creates the directory and locks it. It tries again if another process takes the directory for a leftover
// and removes it before it is locked.
func (s *site) claim() (err error) {
	for range 100 {
		s.tmp = tmpPrefix + randomName()
		if err = s.parent.Mkdir(s.tmp, 0o700); err != nil {
			return err
		}
		var held bool
		s.lock, held, err = s.take(s.tmp)
		if errors.Is(err, errNoLocks) {
			// A directory in the place of the lock file keeps off processes that can lock files.
			path := filepath.Join(s.tmp, lockName)
			held = s.parent.Remove(path) == nil && s.parent.Mkdir(path, 0o700) == nil
		}
		if held {
			return nil
		}
		if err != nil && !errors.Is(err, errNoLocks) && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, s.parent.RemoveAll(s.tmp))
		}
	}
	return osfile.Busy(filepath.Join(filepath.Dir(s.dst), s.tmp), 0)
}

var errNoLocks = errors.New("files can't be locked here")

// take locks a directory in which a tree is or was built. A lock on a removed file doesn't count.
func (s *site) take(tmp string) (lock *os.File, held bool, err error) {
	path := filepath.Join(tmp, lockName)
	file, err := s.parent.OpenFile(path, os.O_RDWR|os.O_CREATE|osfile.Nonblock, 0o600)
	if err != nil {
		return nil, false, err
	}
	held, err = osfile.TryLock(file, osfile.Exclusive)
	if err != nil {
		err = errors.Join(errNoLocks, err)
	}
	if held {
		mine, merr := file.Stat()
		now, nerr := s.parent.Lstat(path)
		held = merr == nil && nerr == nil && os.SameFile(mine, now)
	}
	if !held {
		file.Close()
		return nil, false, err
	}
	return file, true, nil
}

// sweep removes the leftovers of killed checkouts next to the destination. It ignores errors.
func (s *site) sweep() {
	d, err := s.parent.Open(".")
	if err != nil {
		return
	}
	names, _ := d.Readdirnames(-1)
	d.Close()
	for _, name := range names {
		id, ok := strings.CutPrefix(name, tmpPrefix)
		if b, err := hex.DecodeString(id); !ok || err != nil || len(b) != randomBytes {
			continue
		}
		if fi, err := s.parent.Lstat(name); err != nil || !fi.IsDir() || foreign(fi) {
			continue
		}
		if lock, dead, _ := s.take(name); dead {
			s.empty(name)
			lock.Close()
		}
	}
}

// empty removes a locked directory. If another process locks it before the last step, the directory isn't empty and
// remains.
func (s *site) empty(tmp string) error {
	d, err := s.parent.Open(tmp)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	for _, name := range names {
		if name != lockName {
			err = errors.Join(err, s.parent.RemoveAll(filepath.Join(tmp, name)))
		}
	}
	if err != nil {
		return err
	}
	if err := s.parent.Remove(filepath.Join(tmp, lockName)); err != nil {
		return err
	}
	return s.parent.Remove(tmp)
}

// remove ends the claim.
func (s *site) remove() error {
	err := s.empty(s.tmp)
	s.lock.Close()
	if err != nil {
		err = s.parent.RemoveAll(s.tmp) // needed where open files can't be removed, or another process sweeps too
	}
	return err
}

// look returns an error if the destination may not be replaced.
func (s *site) look(force bool) error {
	fi, err := s.parent.Lstat(s.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		return &DestinationError{Path: s.dst, Why: "is a symbolic link"}
	case !fi.IsDir():
		return &DestinationError{Path: s.dst, Why: "already exists and is not a directory"}
	}
	if foreign(fi) {
		return &DestinationError{Path: s.dst, Why: "belongs to another user"}
	}
	d, err := s.parent.Open(s.base)
	if err != nil {
		return err
	}
	defer d.Close()
	switch _, err := d.ReadDir(1); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	case !force:
		return &DestinationError{Path: s.dst, Why: "already exists and is not empty", Force: true}
	}
	s.replace = true
	return nil
}

// publish renames the tree to its destination.
func (s *site) publish() error {
	var err error
	if s.replace {
		err = s.exchange()
	} else {
		err = s.rename()
	}
	if err != nil {
		return s.mounted(err)
	}
	s.done = true
	return nil
}

// mounted explains err if the destination can't be renamed because a file system is mounted there.
func (s *site) mounted(err error) error {
	if fi, ferr := s.parent.Lstat(s.base); ferr != nil || !fi.IsDir() || !errors.Is(err, syscall.EBUSY) &&
		!errors.Is(err, syscall.EXDEV) {
		return err
	}
	return &DestinationError{Path: s.dst,
		Why: "is a mount point, or in use, and can't be replaced: check out into a directory in it"}
}

// rename moves the tree to a destination that is missing or an empty directory. It fails if the destination has
// content by now.
func (s *site) rename() error {
	tree := filepath.Join(s.tmp, rootName)
	err := s.parent.Rename(tree, s.base)
	if err == nil {
		return nil
	}
	// Package os doesn't rename over directories, not even empty ones.
	switch rerr := s.parent.Remove(s.base); {
	case rerr == nil:
		return s.parent.Rename(tree, s.base)
	case errors.Is(rerr, syscall.EBUSY):
		return rerr
	}
	return err
}

// swap exchanges two directories without a system call for it: between its two renames the destination is missing.
func (s *site) swap() error {
	const oldName = "old"
	tree, old := filepath.Join(s.tmp, rootName), filepath.Join(s.tmp, oldName)
	if err := s.parent.Rename(s.base, old); err != nil {
		return err
	}
	if err := s.parent.Rename(tree, s.base); err != nil {
		return errors.Join(err, s.parent.Rename(old, s.base))
	}
	return nil
}

// close removes the unfinished tree, or the directory that was replaced.
func (s *site) close() error {
	err := s.target.close()
	if rerr := s.remove(); rerr != nil {
		what := "the unfinished tree"
		if s.done {
			what = "the replaced directory"
		}
		err = errors.Join(err, fmt.Errorf("%s is left in %q: %w", what, filepath.Join(filepath.Dir(s.dst), s.tmp),
			rerr))
	}
	return errors.Join(err, s.parent.Close())
}

const randomBytes = 8

func randomName() string {
	var b [randomBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// permOf returns the permissions of a new file, before the umask.
func permOf(m cas.Mode) fs.FileMode {
	if m == cas.Exec {
		return 0o755
	}
	return 0o644
}

// A rootTarget is a target on top of os.Root, which every system has.
type rootTarget struct{ r *os.Root }

// openRootTarget opens a directory that was just made.
func openRootTarget(in *os.Root, name string) (target, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err == nil && (!before.IsDir() || !os.SameFile(before, fi)) {
		err = changed(name, errSwapped)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return rootTarget{root}, nil
}

func (t rootTarget) mkdir(name string) (target, error) {
	if err := t.r.Mkdir(name, 0o777); err != nil {
		return nil, err
	}
	return openRootTarget(t.r, name)
}

func (t rootTarget) create(name string, m cas.Mode) (*os.File, error) {
	return t.r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, permOf(m))
}

func (t rootTarget) write(name string, m cas.Mode, b []byte) error {
	f, err := t.create(name, m)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (t rootTarget) close() error { return t.r.Close() }
