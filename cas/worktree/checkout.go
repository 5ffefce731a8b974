package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// CheckoutOptions are the options of Checkout. The zero value is valid.
type CheckoutOptions struct {
	// Force replaces a directory that isn't empty, with all its content.
	Force bool
	// Forbidden are directories that are never replaced, and neither are their parents: the home directory.
	Forbidden []string
	// Closed are Forbidden, and Checkout creates nothing in them either: the store, the directory of keys.
	Closed []string
	// MaxFiles limits the number of new files and directories; 4 Mi when zero. A few small trees that name each other
	// can describe more files than any disk holds.
	MaxFiles int64
	// MaxBytes limits the bytes of all files; no limit when zero.
	MaxBytes int64
	// Progress is called with the files and bytes done so far, as in Options.
	Progress func(files, bytes int64)

	// For tests:
	portable    bool // use the portable code even if a faster one exists
	windowFiles int  // instead of the constants
	windowDirs  int
}

// A CheckoutResult counts the files, directories and bytes that Checkout created.
type CheckoutResult struct {
	Files, Dirs, Bytes int64 // the root counts as a directory
}

// tooMuch returns the error for a tree with more than most files or bytes.
func tooMuch(what string, most int64) error {
	return fault.New(fault.Limit, "the tree has more than %d %s", most, what)
}

// Limits of concurrent work. Directories stay open while files are written into them.
const (
	windowFiles = 8 << 10
	windowDirs  = 256
	openDirs    = 512
	leastDirs   = 16
)

// Checkout creates the directory dst from the tree root, which it reads from src. The parent of dst must exist. On any
// error dst is unchanged, and when Checkout returns without one dst is complete.
func Checkout(ctx context.Context, src cas.Getter, root cas.ID, dst string,
	checkoutOptions CheckoutOptions) (_ CheckoutResult,
	err error) {
	if root.Kind != cas.TreeKind {
		return CheckoutResult{}, fault.New(fault.Validation, "%s is not a tree", root)
	}
	if checkoutOptions.MaxFiles <= 0 {
		checkoutOptions.MaxFiles = 4 << 20
	}
	checkoutOptions.windowFiles, checkoutOptions.windowDirs = cmp.Or(checkoutOptions.windowFiles, windowFiles),
		cmp.Or(checkoutOptions.windowDirs, windowDirs)
	site, err := openSite(dst, checkoutOptions)
	if err != nil {
		return CheckoutResult{}, err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	checkout := &checkout{CheckoutOptions: checkoutOptions, src: src, paths: site.target}
	checkout.buffers.New = func() any { return new([readWhole]byte) }
	defer checkout.closeAll()
	if err := checkout.run(ctx, root.Digest); err != nil {
		return CheckoutResult{}, err
	}
	if ctx.Err() != nil {
		return CheckoutResult{}, context.Cause(ctx)
	}
	if err := site.publish(); err != nil {
		return CheckoutResult{}, err
	}
	return CheckoutResult{Files: checkout.files.Load(), Dirs: checkout.dirs, Bytes: checkout.bytes.Load()}, nil
}

// A target is an open directory that a checkout fills. It never follows names in it. Its methods are safe for
// concurrent use.
type target interface {
	// mkdir makes a directory and opens it.
	mkdir(name string) (target, error)
	// write creates a new file with these bytes.
	write(name string, m cas.Mode, b []byte) error
	// create creates a new file and opens it for writing and reading.
	create(name string, m cas.Mode) (*os.File, error)
	close() error
}

// A checkout is one Checkout.
type checkout struct {
	CheckoutOptions
	src     cas.Getter
	paths   target // the parent of the root directory, which is named rootName
	buffers sync.Pool

	stack   []*outDir // directories to make
	open    int       // open directories
	made    []*outDir // opened since the last window
	window  []outFile
	files   atomic.Int64
	bytes   atomic.Int64
	dirs    int64
	planned int64 // known files and directories
	size    int64 // known bytes
}

// rootName is the name of the tree's root while it is built.
const rootName = "tree"

// An outDir is a directory to create.
type outDir struct {
	parent *outDir
	name   string
	rel    string
	tree   cas.Digest

	t       target
	entries []cas.Entry
	subs    int // subdirectories that don't exist yet and need t
}

// An outFile is a file to create.
type outFile struct {
	d *outDir
	e *cas.Entry
}

// run alternates between making directories, until they have a window of files, and writing those files.
func (c *checkout) run(ctx context.Context, root cas.Digest) error {
	c.stack = append(c.stack, &outDir{name: rootName, tree: root})
	for len(c.stack) > 0 {
		n := min(len(c.stack), c.windowDirs, max(leastDirs, openDirs-c.open))
		dirs := c.stack[len(c.stack)-n:]
		c.stack = c.stack[:len(c.stack)-n]
		if err := c.makeDirs(ctx, append([]*outDir(nil), dirs...)); err != nil {
			return err
		}
		if len(c.window) >= c.windowFiles || len(c.made) >= c.windowDirs || len(c.stack) == 0 {
			if err := c.fill(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDirs reads trees, creates their directories and plans their entries.
func (c *checkout) makeDirs(ctx context.Context, dirs []*outDir) error {
	ids := make([]cas.ID, len(dirs))
	for i, d := range dirs {
		ids[i] = cas.ID{Kind: cas.TreeKind, Digest: d.tree}
	}
	u := unique(ids)
	err := cas.Fetch(ctx, c.src, u.ids, func(i int, o cas.Object) error {
		entries, err := cas.TreeIn(o, u.ids[i], nil)
		if err != nil {
			return err
		}
		for at := u.first[i]; at >= 0; at = u.next[at] {
			d := dirs[at]
			in := c.paths
			if d.parent != nil {
				in = d.parent.t
			}
			if d.t, err = in.mkdir(d.name); err != nil {
				return located(d.rel, err)
			}
			d.entries = entries
		}
		return nil
	})
	for _, d := range dirs {
		if d.t != nil {
			c.made = append(c.made, d)
			c.open++
		}
	}
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := c.plan(d); err != nil {
			return err
		}
	}
	return nil
}

// plan queues the entries of dir.
func (c *checkout) plan(dir *outDir) error {
	c.dirs++
	c.planned += int64(len(dir.entries))
	if c.planned > c.MaxFiles {
		return tooMuch("files", c.MaxFiles)
	}
	for i := range dir.entries {
		e := &dir.entries[i]
		if len(dir.rel)+1+len(e.Name) > maxPath {
			return located(join(dir.rel, e.Name), checkName(dir.rel, e.Name))
		}
		if e.Mode == cas.Dir {
			dir.subs++
			c.stack = append(c.stack, &outDir{parent: dir, name: e.Name, rel: join(dir.rel, e.Name), tree: e.Digest})
			continue
		}
		c.window = append(c.window, outFile{dir, e})
		if c.size += e.Size; c.size < 0 || c.MaxBytes > 0 && c.size > c.MaxBytes {
			return tooMuch("bytes", c.MaxBytes)
		}
	}
	if dir.parent != nil {
		dir.parent.subs--
	}
	return nil
}

// fill writes the files of the window and closes the directories that are finished.
func (c *checkout) fill(ctx context.Context) error {
	ids := make([]cas.ID, len(c.window))
	for i := range c.window {
		ids[i] = c.window[i].e.ID()
	}
	u := unique(ids)
	err := cas.Fetch(ctx, c.src, u.ids, func(i int, o cas.Object) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return c.write(o, &u, u.first[i])
	})
	if err != nil {
		return err
	}
	c.window = c.window[:0]
	needed := c.made[:0]
	for _, d := range c.made {
		if d.subs > 0 {
			needed = append(needed, d)
			continue
		}
		c.open--
		if err := d.t.close(); err != nil {
			return located(d.rel, err)
		}
		d.t, d.entries = nil, nil
	}
	clear(c.made[len(needed):])
	c.made = needed
	return nil
}

// closeAll closes the directories that an error left open.
func (c *checkout) closeAll() {
	for _, d := range c.made {
		if d.t != nil {
			d.t.close()
		}
	}
}

// write creates the files of the window that have the same bytes, beginning at the position first.
func (c *checkout) write(object cas.Object, uniqueIDs *uniqueIDs, first int32) error {
	for at := first; at >= 0; at = uniqueIDs.next[at] {
		if f := &c.window[at]; f.e.Size != object.Size {
			return located(join(f.d.rel, f.e.Name),
				fmt.Errorf("%s has %d bytes; its tree lists %d", object.ID, object.Size, f.e.Size))
		}
	}
	if object.Size > readWhole {
		return c.writeLong(object, uniqueIDs, first)
	}
	buf := c.buffers.Get().(*[readWhole]byte)
	defer c.buffers.Put(buf)
	b := buf[:object.Size]
	if _, err := io.ReadFull(object, b); err != nil {
		return damaged(object, err)
	}
	if err := atEnd(object); err != nil {
		return err
	}
	for at := first; at >= 0; at = uniqueIDs.next[at] {
		f := &c.window[at]
		if err := f.d.t.write(f.e.Name, f.e.Mode, b); err != nil {
			return located(join(f.d.rel, f.e.Name), err)
		}
		c.progress(1, object.Size)
	}
	return nil
}

// damaged wraps an early end of an object, so that a caller can't take it for a regular end.
func damaged(o cas.Object, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &cas.DamagedError{ID: o.ID, Err: io.ErrUnexpectedEOF}
	}
	return err
}

// atEnd reads to the end of an object: only io.EOF proves the bytes.
func atEnd(o cas.Object) error {
	var one [1]byte
	switch n, err := o.Read(one[:]); {
	case n > 0:
		return &cas.DamagedError{ID: o.ID, Err: cas.ErrTooLong}
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	return &cas.DamagedError{ID: o.ID, Err: io.ErrNoProgress}
}

func (c *checkout) progress(files, bytes int64) {
	f, b := c.files.Add(files), c.bytes.Add(bytes)
	if c.Progress != nil {
		c.Progress(f, b)
	}
}

// uniqueIDs are ids without repetitions.
type uniqueIDs struct {
	ids   []cas.ID
	first []int32 // the first position of each of ids
	next  []int32 // for each position, the next one with the same id, or -1
}

func unique(ids []cas.ID) uniqueIDs {
	seen := make(map[cas.ID]int32, len(ids)) // the last position so far
	u := uniqueIDs{ids: make([]cas.ID, 0, len(ids)), first: make([]int32, 0, len(ids)), next: make([]int32, len(ids))}
	for i, id := range ids {
		u.next[i] = -1
		if last, ok := seen[id]; ok {
			u.next[last] = int32(i)
		} else {
			u.ids, u.first = append(u.ids, id), append(u.first, int32(i))
		}
		seen[id] = int32(i)
	}
	return u
}
