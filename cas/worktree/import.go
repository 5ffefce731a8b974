package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/statcache"
)

// Options are the options of Import. The zero value is valid.
type Options struct {
	// Workers is how many goroutines read; GOMAXPROCS when zero.
	Workers int
	// Cache remembers the digests of unchanged files; nil remembers nothing.
	Cache *statcache.Cache
	// Skip reports whether to leave out a path, which is relative to the directory and "/"-separated. It is called
	// from several goroutines.
	Skip func(path string, dir bool) bool
	// Files is called with the files of each directory in the tree, sorted by name, from several goroutines. It must
	// not keep the slice.
	Files func(files []File)
	// Look receives the bytes of each file that is read, even if the import fails, from several goroutines.
	Look func(path string, r io.Reader) error
	// Progress is called with the files and bytes done so far, often and from several goroutines, so the numbers may
	// be lower than in the call before.
	Progress func(files, bytes int64)

	portable bool // use the portable code even if a faster one exists; for tests
}

// A File is a file in a tree.
type File struct {
	Path string // relative to the directory that was imported
	cas.Entry
	Read bool // its bytes were read, its digest was not remembered
}

// A Result describes what Import stored.
type Result struct {
	ID        cas.ID // of the tree, or of the blob when a file was imported
	Files     int64
	Dirs      int64 // directories in the tree, its root included
	Bytes     int64 // of all files
	Read      int64 // files that were read; the others were remembered
	EmptyDirs int64 // directories left out because there is no file in them
	Droppings int64 // files and directories left out because trees never hold them
	Skipped   int64 // files and directories left out by Options.Skip
}

// changed returns the error for a file or directory that changed during an import, so that the import read no
// consistent state.
func changed(path string, found error) error {
	return fault.New(fault.Conflict, "%q changed while it was read: %v", path, found).From(found)
}

// Import puts the directory or file at path into batch and returns its ID. It does not commit the batch. It follows
// symbolic links in path itself, and none below it.
func Import(ctx context.Context, batch cas.Batch, path string, options Options) (Result, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Result{}, err
	}
	fi, err := os.Stat(abs)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	importer := &importer{Options: options, ctx: ctx, cancel: cancel, batch: batch, root: abs}
	importer.wake.L = &importer.mu
	if importer.Workers <= 0 {
		importer.Workers = runtime.GOMAXPROCS(0)
	}
	if fi.IsDir() {
		err = importer.importDir()
	} else {
		err = importer.importFile(fi)
	}
	if err != nil {
		return Result{}, err
	}
	return importer.result(), nil
}

// An importer is one Import.
type importer struct {
	Options
	ctx    context.Context
	cancel context.CancelCauseFunc // with the first error
	batch  cas.Batch
	root   string           // absolute
	begin  statcache.Moment // set if the import has a cache

	mu    sync.Mutex
	wake  sync.Cond
	stack []job
	busy  int // workers with a job

	id                               cas.ID
	files, dirs, bytes, read         atomic.Int64
	emptyDirs, droppings, leftBySkip atomic.Int64
	problems                         problems
}

// A job is a part of a directory's files to read or, when n is zero, a directory to list.
type job struct {
	d       *dir
	from, n int
}

// A worker is the memory that one goroutine reuses.
type worker struct {
	buf     []byte // at least readWhole + 1 bytes
	names   []name
	ids     []cas.ID
	at      []int32 // the file of each of ids
	tree    []byte
	entries []cas.Entry
	recall  []statcache.File
	list    listBuffer
	listed  []File
}

func newWorker() *worker { return &worker{buf: make([]byte, readWhole+1)} }

func (m *importer) importDir() error {
	open := openDir
	if m.portable {
		open = openRoot
	}
	f, info, err := open(m.root)
	if err != nil {
		return err
	}
	if m.Cache != nil {
		m.begin = m.Cache.Now()
	}
	root := &dir{f: f, info: info}
	root.expect(1)
	m.push(job{d: root})
	var wg sync.WaitGroup
	for range m.Workers {
		wg.Go(m.work)
	}
	wg.Wait()
	for _, j := range m.stack { // left over from a cancelled run
		j.d.abandon()
	}
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	return m.problems.err()
}

// importFile makes a blob of one file.
func (m *importer) importFile(fi os.FileInfo) error {
	if !fi.Mode().IsRegular() {
		m.problems.add(m.root, describe(fi.Mode()))
		return m.problems.err()
	}
	resolved, err := filepath.EvalSymlinks(m.root)
	if err != nil {
		return err
	}
	dirname, base := filepath.Split(resolved)
	f, _, err := openRoot(dirname)
	if err != nil {
		return err
	}
	d := &dir{f: f, files: []file{{name: base}}, single: true}
	d.expect(1)
	defer d.release()
	e := &d.files[0]
	if err := m.readFile(newWorker(), d, e); err != nil {
		return err
	}
	m.id = cas.ID{Kind: cas.Blob, Digest: e.digest}
	return m.problems.err()
}

func (m *importer) result() Result {
	return Result{
		ID: m.id, Files: m.files.Load(), Dirs: m.dirs.Load(), Bytes: m.bytes.Load(), Read: m.read.Load(),
		EmptyDirs: m.emptyDirs.Load(), Droppings: m.droppings.Load(), Skipped: m.leftBySkip.Load(),
	}
}

// push adds a job. Workers take the last one first: they finish directories before they begin new ones, so few are
// open at a time.
func (m *importer) push(j job) {
	m.mu.Lock()
	m.stack = append(m.stack, j)
	m.mu.Unlock()
	m.wake.Signal()
}

// work takes jobs until the stack is empty and no busy worker can push another.
func (m *importer) work() {
	worker := newWorker()
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for len(m.stack) == 0 && m.busy > 0 && m.ctx.Err() == nil {
			m.wake.Wait()
		}
		if len(m.stack) == 0 || m.ctx.Err() != nil {
			m.wake.Broadcast()
			return
		}
		j := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		m.busy++
		m.mu.Unlock()
		err := m.do(worker, j)
		if err != nil {
			m.cancel(err)
		}
		m.mu.Lock()
		m.busy--
	}
}

func (m *importer) do(worker *worker, j job) error {
	var err error
	if j.n == 0 {
		err = m.list(worker, j.d)
	} else {
		err = m.filesOf(worker, j.d, j.from, j.n)
	}
	j.d.release()
	if err != nil {
		return err
	}
	return m.done(worker, j.d)
}

// progress counts work and reports it.
func (m *importer) progress(files, bytes int64) {
	f, b := m.files.Add(files), m.bytes.Add(bytes)
	if m.Progress != nil {
		m.Progress(f, b)
	}
}

// pathOf returns the path of a file for messages, relative to the imported directory.
func (m *importer) pathOf(d *dir, name string) string {
	if d.single {
		return m.root
	}
	return join(d.rel, name)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// located adds the path to an error that lacks it.
func located(path string, err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("%q: %w", path, err)
}
