package osfile

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A Batch replaces and creates many files. It writes all new files next to their destinations first, so that a failure
// changes nothing; then Commit renames them. Each file is always either the old or the new one, and durable when
// Commit returns. For a large batch, one sync of the whole file system replaces a sync for each file, if the system
// can. The caller ends a batch with Commit or Drop.
//
// A missing directory can be built, with all its content, in a hidden one next to its destination; Commit renames
// it.
type Batch struct {
	Ordered bool // Commit moves one file after the other

	many  bool // one sync for all
	now   time.Time
	swept sync.Map // directories that were swept

	mu     sync.Mutex
	sites  map[place]*site  // by the destination's parent directory
	wholes map[place]*whole // by destination
}

// A place is a name below a directory.
type place struct {
	dir  *Dir
	name string
}

// fewFiles is the largest batch whose files are synced one by one.
const fewFiles = 16

// NewBatch returns a batch for about this number of files.
func NewBatch(files int, now time.Time) *Batch {
	return &Batch{many: files > fewFiles && hasBarrier, now: now}
}

// A Staged file is written under a temporary name next to its destination.
type Staged struct {
	Name   string // of the destination, below the directory
	dir    *Dir
	part   string      // temporary name
	before fs.FileInfo // of the file to replace; nil if there is none
	whole  *whole      // the directory that part is in; nil if part is next to its destination
	placed bool
}

// IsNew reports whether the file did not exist before.
func (st *Staged) IsNew() bool { return st.before == nil }

// Placed reports whether Commit has moved the file to its destination. A nil Staged never is.
func (st *Staged) Placed() bool {
	return st != nil && (st.placed || st.whole != nil && st.whole.moved)
}

// A Folder is an open directory in which a batch stages files. It never writes to a directory that replaces this one.
type Folder struct {
	batch *Batch
	dir   *Dir
	name  string
	root  *os.Root
	whole *whole // the directory being built that contains it, or nil; then root is nil
}

// Folder opens a directory below d, and creates it if it is missing and mayMake is true. The caller closes it.
func (b *Batch) Folder(d *Dir, name string, mayMake bool) (*Folder, error) {
	r, err := d.Folder(name, mayMake)
	if err != nil {
		return nil, err
	}
	b.sweep(d, name)
	return &Folder{batch: b, dir: d, name: name, root: r}, nil
}

func (b *Batch) sweep(d *Dir, name string) {
	dir := d.Where(name)
	if _, again := b.swept.LoadOrStore(dir, true); !again {
		Sweep(dir, b.now)
	}
}

func (f *Folder) Close() {
	if f.root != nil {
		f.root.Close()
	}
}

// Stage writes a new file for a name in the directory. before describes the file that it will replace; nil means that
// none exists. It is safe for concurrent use.
func (f *Folder) Stage(base string, before fs.FileInfo, mode fs.FileMode, write func(io.Writer) error) (*Staged,
	error) {
	if f.whole != nil {
		return f.build(base, mode, write)
	}
	st := &Staged{Name: path.Join(f.name, base), dir: f.dir, part: Unfinished + rand.Text(), before: before}
	err := In{Root: f.root, Lazy: f.batch.many}.Create(st.part, 0o600, func(to *os.File) error {
		if err := write(to); err != nil {
			return err
		}
		return to.Chmod(mode)
	})
	if err != nil {
		f.root.Remove(st.part)
		return nil, f.dir.About(st.Name, err)
	}
	return st, nil
}

// build stages a file in a directory that is being built.
func (f *Folder) build(base string, mode fs.FileMode, write func(io.Writer) error) (*Staged, error) {
	st := &Staged{Name: path.Join(f.name, base), dir: f.dir, part: base, whole: f.whole}
	f.whole.begun.Add(1)
	if err := f.whole.site.create(f.whole.site.below(st.Name), mode, write); err != nil {
		return nil, f.dir.About(st.Name, err)
	}
	return st, nil
}

// Stage is Folder.Stage for one file of a directory.
func (b *Batch) Stage(d *Dir, name string, before fs.FileInfo, mode fs.FileMode, write func(io.Writer) error) (*Staged,
	error) {
	f, err := b.Folder(d, path.Dir(name), before == nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stage(path.Base(name), before, mode, write)
}

// Drop removes the staged files that aren't at their destinations, and ends the batch. Drop and Commit skip nil
// entries.
func (b *Batch) Drop(all []*Staged) {
	b.clear()
	var at openFolder
	defer at.close()
	for _, st := range all {
		if st == nil || st.placed || st.whole != nil {
			continue
		}
		if r, err := at.open(st); err == nil {
			r.Remove(st.part)
		}
	}
}

// Commit moves the staged files to their destinations. It stops at the first file that another process has changed
// since it was read, and drops the rest. Unless the batch is Ordered, it works on several directories at once. It
// is fastest if the files of one directory follow each other.
func (b *Batch) Commit(ctx context.Context, all []*Staged) error {
	err := b.sync(all)
	if err == nil {
		if err = b.moveWholes(ctx, all); err == nil {
			err = b.moveAll(ctx, all)
		}
		b.clear()
		err = errors.Join(err, b.sync(all))
	}
	b.Drop(all)
	return err
}

// moveAll moves the files that aren't at their destinations. It returns the first error in the order of the files.
func (b *Batch) moveAll(ctx context.Context, all []*Staged) error {
	var groups [][]*Staged // the files of one directory each
	for _, st := range all {
		switch n := len(groups) - 1; {
		case st == nil || st.Placed():
		case n >= 0 && groups[n][0].dir == st.dir && path.Dir(groups[n][0].Name) == path.Dir(st.Name):
			groups[n] = append(groups[n], st)
		default:
			groups = append(groups, []*Staged{st})
		}
	}
	errs, failed, next := make([]error, len(groups)), atomic.Bool{}, atomic.Int64{}
	work := func() {
		var at openFolder
		defer at.close()
		for i := next.Add(1) - 1; i < int64(len(groups)); i = next.Add(1) - 1 {
			for _, st := range groups[i] {
				if failed.Load() {
					return
				}
				if errs[i] = context.Cause(ctx); errs[i] == nil {
					errs[i] = b.move(&at, st)
				}
				if errs[i] != nil {
					failed.Store(true)
					return
				}
				st.placed = true
			}
		}
	}
	workers := runtime.GOMAXPROCS(0)
	if b.Ordered || !b.many {
		workers = 1
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(work)
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// An openFolder keeps the directory of the last staged file open for the next.
type openFolder struct {
	dir  *Dir
	name string
	root *os.Root
	file *os.File // root, if the system supports it
	from *os.File // the directory of the staged files: file, or its hidden place
}

// open returns the directory of a staged file's destination. It reuses the open one if it is the same.
func (o *openFolder) open(st *Staged) (*os.Root, error) {
	name := path.Dir(st.Name)
	if o.root != nil && o.dir == st.dir && o.name == name && (st.whole == nil) == (o.from == o.file) {
		return o.root, nil
	}
	o.close()
	root, err := st.dir.Folder(name, st.whole != nil)
	if err != nil {
		return nil, err
	}
	*o = openFolder{dir: st.dir, name: name, root: root}
	if hasRename {
		o.file, _ = root.Open(".")
		o.from = o.file
	}
	if st.whole != nil {
		if o.from, err = st.whole.site.root.Open(st.whole.site.below(name)); err != nil {
			o.close()
			return nil, err
		}
	}
	return root, nil
}

func (o *openFolder) close() {
	if o.root != nil {
		o.root.Close()
		o.file.Close()
		if o.from != o.file {
			o.from.Close()
		}
	}
	*o = openFolder{}
}

// move renames one staged file, unless its destination has changed since the caller read it.
func (b *Batch) move(at *openFolder, st *Staged) error {
	root, err := at.open(st)
	if err != nil {
		return err
	}
	base := path.Base(st.Name)
	if st.before != nil {
		var now fs.FileInfo
		if now, err = root.Lstat(base); err == nil && !same(now, st.before) {
			return st.dir.Changed(st.Name)
		}
	}
	if err == nil {
		if st.before != nil || at.file == nil {
			err = errors.ErrUnsupported
		} else {
			err = renameNew(at.from, st.part, at.file, base)
		}
		if errors.Is(err, errors.ErrUnsupported) && st.whole == nil {
			err = In{Root: root}.Place(st.part, base, st.before == nil)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return st.dir.Changed(st.Name)
	case err != nil:
		return st.dir.About(st.Name, err)
	case b.many:
		return nil
	}
	return SyncDirectory(st.dir.Where(path.Dir(st.Name)))
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Changed returns the error about a file that another process changed since it was read.
func (d *Dir) Changed(name string) error {
	return fault.New(fault.Conflict, "%q was changed by another process and was not replaced", d.Where(name))
}

// sync makes everything that a large batch wrote durable. In a small one each file was synced.
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
