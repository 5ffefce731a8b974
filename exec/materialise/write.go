package materialise

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

const (
	treeName  = "tree"
	scopeName = "package.json"
	scopeText = "{}\n"
)

// A Copy is a directory of pinned files. It doesn't change until it is closed.
type Copy struct {
	Dir    string // of the files
	Root   string // the directory that a run must be able to read, with Dir and package.json
	Key    string
	Files  int
	Bytes  int64
	Reused bool
	Damage error // the damage of the previous copy, or nil

	lease *os.File
	own   bool // only this run uses it
}

// Close ends the use of the copy.
func (c *Copy) Close() error {
	var err error
	if c.own {
		err = removeAll(c.Root)
	}
	if c.lease != nil {
		err = errors.Join(err, c.lease.Close())
	}
	return err
}

// Copy returns a copy of parts, with bytes from src. The caller closes it.
func (c *Cache) Copy(ctx context.Context, src cas.Getter, parts []Part) (*Copy, error) {
	return c.copy(ctx, src, parts, checkSet)
}

// Key returns the key of a copy of parts.
func Key(ctx context.Context, src cas.Getter, parts []Part) (string, error) {
	p, err := newPlan(ctx, src, parts, checkSet)
	if err != nil {
		return "", err
	}
	return p.key, nil
}

// Place returns the copy with a key without examining it: its files may be missing or changed, or be removed at any
// time.
func (c *Cache) Place(key string) *Copy {
	root := c.at(copies, key)
	return &Copy{Dir: filepath.Join(root, treeName), Root: root, Key: key}
}

// Packages is Copy for packages of registries, which may have files in Modules.
func (c *Cache) Packages(ctx context.Context, src cas.Getter, parts []Part) (*Copy, error) {
	return c.copy(ctx, src, parts, CheckPackages)
}

func (c *Cache) copy(ctx context.Context, src cas.Getter, parts []Part, check func([]string) error) (*Copy, error) {
	plan, err := newPlan(ctx, src, parts, check)
	if err != nil {
		return nil, err
	}
	out := c.Place(plan.key)
	out.Files, out.Bytes, out.Reused = len(plan.files), plan.bytes, true
	if out.lease, err = c.lease(ctx, plan.key); err != nil {
		return nil, err
	}
	if plan.verify(ctx, out.Root) == nil {
		return out, nil
	}
	if err := c.bring(ctx, src, plan, out); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// bring makes a copy unless another goroutine has made it meanwhile.
func (c *Cache) bring(ctx context.Context, src cas.Getter, plan *plan, out *Copy) error {
	done, err := c.making.Take(ctx, plan.key)
	if err != nil {
		return err
	}
	defer done()
	damage := plan.verify(ctx, out.Root)
	switch {
	case damage == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !isAbsent(out.Root):
		out.Damage = damage
	}
	out.Reused = false
	dir := c.at(making, plan.key+"."+newKey())
	if err := plan.write(ctx, src, dir); err != nil {
		return errors.Join(err, removeAll(dir))
	}
	if err := c.publish(ctx, plan, out, dir); err != nil {
		return errors.Join(err, removeAll(dir))
	}
	return nil
}

func isAbsent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// publish gives a copy its name. If that fails, only this run uses the copy.
func (c *Cache) publish(ctx context.Context, p *plan, out *Copy, dir string) error {
	if out.Damage != nil {
		if err := c.discard(ctx, p.key, out); err != nil {
			return err
		}
	}
	if isAbsent(out.Root) && os.Rename(dir, out.Root) == nil {
		return nil
	}
	if p.verify(ctx, out.Root) == nil {
		// Another process was first.
		return removeAll(dir)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out.Root, out.own = dir, true
	out.Dir = filepath.Join(dir, treeName)
	return nil
}

// discard removes a damaged copy, unless other runs use it.
func (c *Cache) discard(ctx context.Context, key string, out *Copy) error {
	// Converting to an exclusive lock releases the lock for a moment, in which no other process may take it.
	root, err := c.locked(ctx, c.at("lock"), osfile.Exclusive)
	if err != nil {
		return err
	}
	defer root.Close()
	name := out.lease.Name()
	out.lease.Close()
	lease, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	alone, err := osfile.TryLock(lease, osfile.Exclusive)
	old := c.at(making, key+"."+newKey())
	if alone {
		err = os.Rename(out.Root, old)
	}
	lease.Close()
	if out.lease, err = c.again(ctx, name, err); err != nil || !alone {
		return err
	}
	return removeAll(old)
}

// again retakes a lease, and joins its error to err.
func (c *Cache) again(ctx context.Context, name string, err error) (*os.File, error) {
	f, err2 := c.locked(ctx, name, osfile.Shared)
	return f, errors.Join(err, err2)
}

// write writes the files of a plan to a new directory.
func (p *plan) write(ctx context.Context, src cas.Getter, dir string) error {
	writer := &writer{ctx: ctx, src: src, plan: p, tree: filepath.Join(dir, treeName), same: map[cas.Digest][]string{}}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	// regardless of the umask and the parent directory
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, scopeName), 0o400, []byte(scopeText)); err != nil {
		return err
	}
	for _, d := range p.order {
		if err := os.Mkdir(writer.at(d), 0o700); err != nil {
			return err
		}
	}
	var ids []cas.ID
	for _, file := range p.paths {
		d := p.files[file].Digest
		if writer.same[d] == nil {
			ids = append(ids, cas.ID{Kind: cas.Blob, Digest: d})
		}
		writer.same[d] = append(writer.same[d], file)
	}
	if err := writer.all(ids); err != nil {
		return err
	}
	for _, d := range slices.Backward(p.order) {
		if err := os.Chmod(writer.at(d), 0o500); err != nil {
			return err
		}
	}
	return nil
}

// A writer writes the files of one copy.
type writer struct {
	ctx  context.Context
	src  cas.Getter
	plan *plan
	tree string
	same map[cas.Digest][]string // the paths of each blob
}

func (w *writer) at(p string) string { return filepath.Join(w.tree, filepath.FromSlash(p)) }

// all writes all blobs, in the source's order if it has one.
func (w *writer) all(ids []cas.ID) error {
	if v, ok := w.src.(cas.Visitor); ok {
		return v.Visit(w.ctx, ids, func(i int, o cas.Object) error { return w.blob(ids[i], o) })
	}
	for _, id := range ids {
		if err := w.get(id, func(o cas.Object) error { return w.blob(id, o) }); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) get(id cas.ID, do func(cas.Object) error) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	o, err := w.src.Get(w.ctx, id)
	if err != nil {
		return &PartError{w.same[id.Digest][0], err}
	}
	defer o.Close()
	return do(o)
}

// inMemory is the largest blob that is read into memory before it is written.
const inMemory = 256 << 10

// blob writes the files with the content of an object.
func (w *writer) blob(id cas.ID, object cas.Object) error {
	paths := w.same[id.Digest]
	for _, file := range paths {
		// A digest with two sizes is an error.
		if e := w.plan.files[file]; e.Size != w.plan.files[paths[0]].Size {
			return &PartError{file, &cas.DamagedError{ID: id, Err: errors.New("has another size in another place")}}
		}
	}
	size := w.plan.files[paths[0]].Size
	if size > inMemory {
		if err := w.long(paths[0], id, size, object); err != nil {
			return err
		}
		for _, file := range paths[1:] {
			if err := w.again(paths[0], file, id, size); err != nil {
				return err
			}
		}
		return nil
	}
	var b bytes.Buffer
	if err := verified(w.ctx, &b, object, id, size); err != nil {
		return &PartError{paths[0], err}
	}
	for _, file := range paths {
		if err := writeFile(w.at(file), mode(w.plan.files[file].Mode), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// long writes one file while reading it.
func (w *writer) long(file string, id cas.ID, size int64, r io.Reader) error {
	f, err := os.OpenFile(w.at(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = verified(w.ctx, f, r, id, size)
	if err != nil {
		err = &PartError{file, err}
	} else {
		err = f.Chmod(mode(w.plan.files[file].Mode))
	}
	return errors.Join(err, f.Close())
}

// again copies a file that was just written, because reading it again from a store may be slow.
func (w *writer) again(from, to string, id cas.ID, size int64) error {
	f, err := os.Open(w.at(from))
	if err != nil {
		return err
	}
	defer f.Close()
	return w.long(to, id, size, f)
}

func mode(m cas.Mode) os.FileMode {
	if m == cas.Exec {
		return 0o500
	}
	return 0o400
}

// writeFile writes a small file.
func writeFile(name string, m os.FileMode, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(m)
	}
	return errors.Join(err, f.Close())
}

// A hasher is reused for many files, since most are small.
type hasher struct {
	cas.Hasher
	buf [32 << 10]byte
}

var hashers = sync.Pool{New: func() any { return &hasher{Hasher: cas.NewHasher()} }}

// verified copies a blob. It returns nil only if the bytes match the blob exactly.
func verified(ctx context.Context, to io.Writer, r io.Reader, id cas.ID, size int64) error {
	hasher := hashers.Get().(*hasher)
	defer hashers.Put(hasher)
	hasher.Reset()
	var n int64
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		got, err := r.Read(hasher.buf[:])
		if n += int64(got); n > size {
			return &cas.DamagedError{ID: id, Err: cas.ErrTooLong}
		}
		hasher.Write(hasher.buf[:got])
		if _, err := to.Write(hasher.buf[:got]); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if n < size {
		return &cas.DamagedError{ID: id, Err: io.ErrUnexpectedEOF}
	}
	if found := hasher.Digest(); found != id.Digest {
		return &cas.DamagedError{ID: id, Found: found}
	}
	return nil
}
