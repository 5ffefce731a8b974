package osfile

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
)

// A site is a hidden directory in which a batch builds directories that are missing next to it. Only its owner may
// enter it. Its process holds it locked.
type site struct {
	name string   // of its parent directory, below the Dir
	in   *os.Root // the parent
	into *os.File // the parent again, for renameNew
	tmp  string   // the site's name in the parent
	root *os.Root
	dir  *os.File // root again, locked

	made   map[string]bool // directories in the site
	last   string          // the name of opened
	opened *os.Root        // the directory in which mkdir was called last, or nil
	modes  sync.Map        // file modes that need no chmod
}

// A whole is a directory that a batch builds with all its content, and then moves to its destination.
type whole struct {
	site  *site
	name  string       // of its destination, below the Dir
	begun atomic.Int64 // files that Stage began to write in it
	moved bool
}

const (
	sitePrefix = Unfinished + "site-"
	mostSites  = 64 // of a batch, because each site keeps directories open
)

// Build is Folder for a missing directory. It returns nil for an existing directory, and if building is not
// possible or not worth it: then the caller uses Folder. Nothing appears at the destination before Commit. The
// Folder holds no open file, so a caller may keep many of them.
func (b *Batch) Build(d *Dir, name string) (*Folder, error) {
	if !b.many || !hasRename {
		return nil, nil
	}
	w, err := b.build(d, name)
	if w == nil || err != nil {
		return nil, err
	}
	return &Folder{batch: b, dir: d, name: name, whole: w}, nil
}

func (b *Batch) build(folder *Dir, name string) (*whole, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known(folder, name)
	if known == nil {
		in, at, err := folder.existing(name)
		if err != nil {
			return nil, err
		}
		if at == name {
			in.Close()
			return nil, nil
		}
		s := b.siteIn(folder, at, in)
		if s == nil {
			return nil, nil
		}
		segment, _, _ := strings.Cut(s.below(name), "/")
		known = &whole{site: s, name: path.Join(at, segment)}
		b.wholes[place{folder, known.name}] = known
	}
	if err := known.site.mkdir(known.site.below(name), folder.mode); err != nil {
		return nil, folder.About(name, err)
	}
	return known, nil
}

// known returns the whole that is a directory or contains it, or nil.
func (b *Batch) known(d *Dir, name string) *whole {
	for ; name != "."; name = path.Dir(name) {
		if w := b.wholes[place{d, name}]; w != nil {
			return w
		}
	}
	return nil
}

// siteIn returns the site in an open directory, which it keeps or closes. If no site can be created it returns nil:
// a Folder at the destination then works, or its error is the one to report.
func (b *Batch) siteIn(folder *Dir, name string, in *os.Root) *site {
	found := b.sites[place{folder, name}]
	if found != nil || len(b.sites) == mostSites {
		in.Close()
		return found
	}
	b.sweep(folder, name)
	if found = openSite(name, in); found == nil {
		return nil
	}
	if b.sites == nil {
		b.sites, b.wholes = make(map[place]*site), make(map[place]*whole)
	}
	b.sites[place{folder, name}] = found
	return found
}

// existing opens the deepest existing directory on the path name, and returns its name.
func (d *Dir) existing(name string) (*os.Root, string, error) {
	for {
		r, err := d.Folder(name, false)
		if name == "." || !errors.Is(err, fs.ErrNotExist) {
			return r, name, err
		}
		name = path.Dir(name)
	}
}

// stays returns an error unless the site's parent directory is still at its path.
func (s *site) stays(folder *Dir) error {
	r, err := folder.Folder(s.name, false)
	if err != nil {
		return err
	}
	defer r.Close()
	now, err := r.Stat(".")
	was, werr := s.in.Stat(".")
	if err := errors.Join(err, werr); err != nil {
		return folder.About(s.name, err)
	}
	if !os.SameFile(now, was) {
		return folder.Changed(s.name)
	}
	return nil
}

// openSite creates a site in the directory in, and takes it over. It returns nil, and closes in, if it can't.
func openSite(name string, in *os.Root) *site {
	s := &site{name: name, in: in, made: map[string]bool{".": true}}
	var err error
	if s.into, err = in.Open("."); err == nil {
		for range 100 {
			if s.claim() {
				return s
			}
		}
		s.into.Close()
	}
	in.Close()
	return nil
}

// claim creates the directory and locks it. It fails if another process takes the directory for a leftover and
// removes it before it is locked.
func (s *site) claim() bool {
	s.tmp = sitePrefix + rand.Text()
	if s.in.Mkdir(s.tmp, 0o700) != nil {
		return false
	}
	var err error
	if s.root, err = s.in.OpenRoot(s.tmp); err == nil {
		if s.dir = lockSite(s.in, s.tmp); s.dir != nil {
			// The test rename shows whether built directories can be moved.
			name := sitePrefix + rand.Text()
			if renameNew(s.into, s.tmp, s.into, name) == nil {
				s.tmp = name
				return true
			}
			s.dir.Close()
		}
		s.root.Close()
	}
	s.in.Remove(s.tmp)
	return false
}

// lockSite opens and locks a site that no process holds. It returns nil if it can't, or if the site was removed or
// replaced meanwhile.
func lockSite(in *os.Root, name string) *os.File {
	file, err := in.Open(name)
	if err != nil {
		return nil
	}
	if held, _ := TryLock(file, Exclusive); held {
		mine, err := file.Stat()
		now, nerr := in.Lstat(name)
		if err == nil && nerr == nil && os.SameFile(mine, now) {
			return file
		}
	}
	file.Close()
	return nil
}

// sweepSite removes a site whose process has died.
func sweepSite(in *os.Root, name string) {
	if fi, err := in.Lstat(name); err != nil || !fi.IsDir() {
		return
	}
	if d := lockSite(in, name); d != nil {
		in.RemoveAll(name)
		d.Close()
	}
}

// below returns a file's or directory's name in the site.
func (s *site) below(name string) string {
	if s.name == "." {
		return name
	}
	return name[len(s.name)+1:]
}

// mkdir creates a directory in the site, and its missing parents.
func (s *site) mkdir(name string, mode fs.FileMode) error {
	if s.made[name] {
		return nil
	}
	dir := path.Dir(name)
	if err := s.mkdir(dir, mode); err != nil {
		return err
	}
	if s.opened == nil || s.last != dir {
		r, err := s.root.OpenRoot(dir)
		if err != nil {
			return err
		}
		s.closeLast()
		s.last, s.opened = dir, r
	}
	if err := s.opened.Mkdir(path.Base(name), mode); err != nil {
		return err
	}
	s.made[name] = true
	return nil
}

func (s *site) closeLast() {
	if s.opened != nil {
		s.opened.Close()
	}
}

// create makes a file with exactly this mode.
func (s *site) create(name string, mode fs.FileMode, write func(io.Writer) error) error {
	err := s.createBelow(name, mode, write)
	if errors.Is(err, errors.ErrUnsupported) {
		err = In{Root: s.root, Lazy: true}.Create(name, 0o600, func(to *os.File) error {
			if err := write(to); err != nil {
				return err
			}
			return to.Chmod(mode)
		})
	}
	return err
}

// moveWholes moves built directories to their destinations. It leaves a directory in the site if its destination
// exists by now, or if all lacks one of the files that were begun in it: that file may be incomplete. moveAll then
// moves the finished files of such a directory one by one. moveWholes stops at any other error, and with
// fault.Conflict if the site's parent directory is no longer at its path.
func (b *Batch) moveWholes(ctx context.Context, all []*Staged) error {
	files := make(map[*whole]int64)
	var wholes []*Staged // the first file of each
	for _, st := range all {
		if st == nil || st.whole == nil {
			continue
		}
		if files[st.whole]++; files[st.whole] == 1 {
			wholes = append(wholes, st)
		}
	}
	var checked *site // the last site for which stays has succeeded
	for _, st := range wholes {
		whole := st.whole
		if whole.begun.Load() != files[whole] {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if whole.site != checked {
			checked = whole.site
			if err := checked.stays(st.dir); err != nil {
				return err
			}
		}
		base := path.Base(whole.name)
		err := renameNew(whole.site.dir, base, whole.site.into, base)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return st.dir.About(whole.name, err)
		}
		whole.moved = err == nil
	}
	return nil
}

// clear removes the sites with their remaining content.
func (b *Batch) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sites {
		s.closeLast()
		s.root.Close()
		s.in.RemoveAll(s.tmp)
		s.dir.Close()
		s.into.Close()
		s.in.Close()
	}
	b.sites, b.wholes = nil, nil
}
