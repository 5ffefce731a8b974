package osfile

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A Batch replaces and creates many files. All new files are written beside their places first, so that a failure
// changes nothing; then Commit renames them one by one. Each file is always either the old or the new one, and durable
// when Commit returns. Where the system can sync a whole file system, that replaces a sync for each file of a large batch.
type Batch struct {
	many  bool // one sync for all
	now   time.Time
	swept sync.Map // directories without files of dead processes
}

// fewFiles is the largest batch whose files are synced one by one.
const fewFiles = 16

// NewBatch returns a batch for about so many files.
func NewBatch(files int, now time.Time) *Batch {
	return &Batch{many: files > fewFiles && hasBarrier, now: now}
}

// A Staged file is written, under a temporary name beside its place.
type Staged struct {
	dir        *Dir
	name, part string
	before     fs.FileInfo
}

// A Folder is an open directory in which a batch stages files. What replaces it meanwhile is never written to.
type Folder struct {
	batch *Batch
	dir   *Dir
	name  string
	root  *os.Root
}

// Folder opens a directory below d, and makes it where it is missing, if it may. The caller closes it.
func (b *Batch) Folder(d *Dir, name string, mayMake bool) (*Folder, error) {
	r, err := d.Folder(name, mayMake)
	if err != nil {
		return nil, err
	}
	dir := d.Where(name)
	if _, again := b.swept.LoadOrStore(dir, true); !again {
		Sweep(dir, b.now)
	}
	return &Folder{b, d, name, r}, nil
}

func (f *Folder) Close() { f.root.Close() }

// Stage writes a new file for a name in the directory. before describes the file that it will replace; nil means that none
// exists. It is safe for concurrent use.
func (f *Folder) Stage(base string, before fs.FileInfo, mode fs.FileMode, write func(io.Writer) error) (*Staged, error) {
	st := &Staged{f.dir, path.Join(f.name, base), Unfinished + rand.Text(), before}
	err := In{Root: f.root, Lazy: f.batch.many}.Create(st.part, 0o600, func(to *os.File) error {
		if err := write(to); err != nil {
			return err
		}
		return to.Chmod(mode)
	})
	if err != nil {
		f.root.Remove(st.part)
		return nil, f.dir.About(st.name, err)
	}
	return st, nil
}

// Stage is Folder.Stage for one file of a directory.
func (b *Batch) Stage(d *Dir, name string, before fs.FileInfo, mode fs.FileMode, write func(io.Writer) error) (*Staged, error) {
	f, err := b.Folder(d, path.Dir(name), before == nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stage(path.Base(name), before, mode, write)
}

// Drop removes staged files. Nil entries are skipped, here and by Commit.
func (b *Batch) Drop(all []*Staged) {
	var at openFolder
	defer at.close()
	for _, st := range all {
		if st == nil {
			continue
		}
		if r, err := at.of(st); err == nil {
			r.Remove(st.part)
		}
	}
}

// Commit moves the staged files into their places in order, and returns how many it moved. It stops at the first file
// that was changed since it was read, and drops the rest. Files of one directory that follow each other cost least.
func (b *Batch) Commit(ctx context.Context, all []*Staged) (done int, err error) {
	if err = b.sync(all); err == nil {
		var at openFolder
		for done < len(all) && err == nil {
			if err = context.Cause(ctx); err == nil && all[done] != nil {
				err = b.move(&at, all[done])
			}
			if err == nil {
				done++
			}
		}
		at.close()
		err = errors.Join(err, b.sync(all[:done]))
	}
	b.Drop(all[done:])
	return done, err
}

// An openFolder keeps the directory of the last staged file open for the next.
type openFolder struct {
	dir  *Dir
	name string
	root *os.Root
}

func (o *openFolder) of(st *Staged) (*os.Root, error) {
	name := path.Dir(st.name)
	if o.root != nil && o.dir == st.dir && o.name == name {
		return o.root, nil
	}
	o.close()
	r, err := st.dir.Folder(name, false)
	if err == nil {
		*o = openFolder{st.dir, name, r}
	}
	return r, err
}

func (o *openFolder) close() {
	if o.root != nil {
		o.root.Close()
	}
	o.root = nil
}

func (b *Batch) move(at *openFolder, st *Staged) error {
	r, err := at.of(st)
	if err != nil {
		return err
	}
	base := path.Base(st.name)
	if st.before != nil {
		var now fs.FileInfo
		if now, err = r.Lstat(base); err == nil && !same(now, st.before) {
			return st.dir.Changed(st.name)
		}
	}
	if err == nil {
		err = In{Root: r}.Place(st.part, base, st.before == nil)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return st.dir.Changed(st.name)
	case err != nil:
		return st.dir.About(st.name, err)
	case b.many:
		return nil
	}
	return SyncDirectory(st.dir.Where(path.Dir(st.name)))
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Changed returns the error about a file that someone else changed since it was read.
func (d *Dir) Changed(name string) error {
	return fault.New(fault.Conflict, "%q changed while it was worked on, and was left as it is", d.Where(name))
}

// sync makes everything durable that was written for the staged files.
func (b *Batch) sync(all []*Staged) (err error) {
	synced := map[*Dir]bool{}
	for _, st := range all {
		if b.many && st != nil && !synced[st.dir] {
			synced[st.dir] = true
			err = errors.Join(err, syncSystem(st.dir.Root))
		}
	}
	return err
}
