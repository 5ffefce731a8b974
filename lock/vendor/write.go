package vendor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas"
)

// A Result counts the work of Write. Files are packs and large objects.
type Result struct {
	Files   int   // files in the directory now
	Objects int   // in them, sets of signatures included
	Bytes   int64 // of all objects
	Written int   // new or changed files
	Removed int
}

// Write makes the directory dir hold exactly these objects. It gets them from src and, if src lacks one, from the
// directory itself. It touches neither correct files nor files of others. It creates dir, but not its parent.
//
// If src and dir lack objects, it returns a *MissingError; a directory in place of a file is an *Error. An error
// about the objects leaves everything unchanged.
func Write(ctx context.Context, dir string, objects []Object, src cas.Getter) (Result, error) {
	return write(ctx, dir, objects, src, nil)
}

func write(ctx context.Context, dir string, objects []Object, src cas.Getter,
	hook func(op, name string) error) (Result, error) {
	plan, err := newPlan(objects)
	if err != nil {
		return Result{}, err
	}
	if err := makeDirectory(dir); err != nil {
		return Result{}, err
	}
	files, err := openFiles(dir)
	if err != nil {
		return Result{}, err
	}
	defer files.Root.Close()
	files.Hook = hook
	// The old files are read through a Vendor of their own. They are replaced only after everything was read.
	old, err := newVendor(files)
	if err != nil {
		return Result{}, err
	}
	w := &writer{ctx: ctx, files: files, src: src, old: old, plan: plan}
	return w.write()
}

type writer struct {
	ctx   context.Context
	files *files
	src   cas.Getter
	old   *Vendor
	plan  *plan

	mu      sync.Mutex
	steps   []step
	missing []cas.ID
}

// A step replaces one file. All new contents are staged before the first file is replaced.
type step struct {
	name  string
	also  bool // a file with both old and new lines comes first
	loses bool // the file loses lines, so it comes last
}

func tempOf(name string) string { return unfinished + name }
func bothOf(name string) string { return unfinished + "both-" + name }

func (w *writer) write() (Result, error) {
	was, err := w.files.list()
	if err != nil {
		return Result{}, err
	}
	for _, name := range was.others {
		if file, ok := strings.CutSuffix(name, "/"); ok && (file == attributesName || w.plan.has(file)) {
			return Result{}, &Error{file, 0, 0, errDirectory} // no file can replace a directory
		}
	}
	for _, name := range was.unfinished {
		if err := w.files.Remove(name); err != nil {
			return Result{}, err
		}
	}
	err = w.stage()
	if err == nil && len(w.missing) > 0 {
		slices.SortFunc(w.missing, func(a, b cas.ID) int { return compareEntries(entry{ID: a}, entry{ID: b}) })
		err = &MissingError{w.missing}
	}
	gone := slices.DeleteFunc(slices.Concat(was.packs, was.large), w.plan.has)
	if err == nil {
		err = w.replace(gone)
	}
	if err != nil {
		w.dropUnfinished()
		return Result{}, err
	}
	r := Result{Files: len(w.plan.packs) + len(w.plan.large), Objects: w.plan.objects, Bytes: w.plan.bytes,
		Removed: len(gone)}
	for _, s := range w.steps {
		if s.name != attributesName {
			r.Written++
		}
	}
	return r, nil
}

// has reports whether the plan includes a file.
func (p *plan) has(name string) bool {
	if id, ok := parseLarge(name); ok {
		_, ok = slices.BinarySearchFunc(p.large, entry{ID: id}, compareEntries)
		return ok
	}
	_, ok := slices.BinarySearchFunc(p.packs, name, func(p pack, name string) int {
		return strings.Compare(p.name, name)
	})
	return ok
}

// dropUnfinished removes the staged files, as far as possible.
func (w *writer) dropUnfinished() {
	for _, s := range w.steps {
		for _, name := range []string{tempOf(s.name), bothOf(s.name)} {
			if w.files.Hook.Do("remove", name) == nil {
				w.files.Root.Remove(name)
			}
		}
	}
}

// stage writes all new files durably beside the old ones.
func (w *writer) stage() error {
	packs, large := w.plan.packs, w.plan.large
	if err := w.stageAttributes(); err != nil {
		return err
	}
	err := cas.Parallel(w.ctx, syncsAtOnce, len(large), func(_ context.Context, i int) error {
		return w.stageLarge(&large[i])
	})
	for len(packs) > 0 && err == nil {
		n, size := 0, int64(0)
		for n < len(packs) && (n == 0 || size < together) {
			for _, e := range packs[n].entries {
				size += e.size
			}
			n++
		}
		err = w.stagePacks(packs[:n])
		packs = packs[n:]
	}
	return err
}

// together is how many bytes of small objects are held at once. A store has them in another order than packs, and in
// compressed blocks of many: this way it uncompresses a block once and not for each object.
const together = 64 << 20

// A packing is a planned pack together with the current file.
type packing struct {
	*pack
	have    *state
	whole   []byte
	missing []entry
	rest    [][]byte
}

func (w *writer) stagePacks(packs []pack) error {
	all := make([]packing, len(packs))
	err := cas.Parallel(w.ctx, syncsAtOnce, len(packs), func(_ context.Context, i int) (err error) {
		p := &all[i]
		p.pack = &packs[i]
		if p.have, err = w.files.examine(p.name); err == nil {
			p.whole, p.missing, p.rest = p.have.lines(p.entries)
		}
		return err
	})
	if err != nil {
		return err
	}
	w.prefetch(all)
	return cas.Parallel(w.ctx, syncsAtOnce, len(packs), func(_ context.Context, i int) error {
		return w.stagePack(&all[i])
	})
}

// prefetch gets the objects that packs lack in the order that is cheapest for the source. If it fails for an object,
// get tries again and returns the error.
func (w *writer) prefetch(packs []packing) {
	visitor, ok := w.src.(cas.Visitor)
	misser, too := w.src.(cas.Misser)
	if !ok || !too {
		return
	}
	var ids []cas.ID
	var entries []*entry
	for i := range packs {
		for j := range packs[i].missing {
			if e := &packs[i].missing[j]; e.Kind != signed && e.bytes == nil {
				ids, entries = append(ids, e.ID), append(entries, e)
			}
		}
	}
	lacking, err := misser.Missing(w.ctx, ids)
	if err != nil || len(lacking) > 0 {
		return // rare, and ends in an error
	}
	visitor.Visit(w.ctx, ids, func(i int, o cas.Object) error {
		e := entries[i]
		b, err := readEntry(o, e)
		if err == nil {
			e.bytes = b
		}
		return err
	})
}

func (w *writer) stageAttributes() error {
	if ok, err := w.files.hasAttributes(); ok || err != nil {
		return err
	}
	return w.create(step{name: attributesName}, []byte(attributes), nil)
}

// create writes the files of a step.
func (w *writer) create(step step, whole, both []byte) error {
	w.mu.Lock()
	w.steps = append(w.steps, step) // first, so that dropUnfinished finds its files
	w.mu.Unlock()
	put := func(name string, b []byte) error {
		return w.files.Create(name, 0o644, func(to *os.File) error { _, err := to.Write(b); return err })
	}
	if step.also {
		if err := put(bothOf(step.name), both); err != nil {
			return err
		}
	}
	return put(tempOf(step.name), whole)
}

func (w *writer) stagePack(packing *packing) (err error) {
	whole, rest, missing := packing.whole, packing.rest, packing.missing
	if len(missing) == 0 && bytes.Equal(whole, packing.have.file) {
		return nil
	}
	if len(missing) > 0 {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		if whole, err = w.fill(packing, (*buf)[:0]); whole == nil || err != nil {
			return err
		}
		*buf = whole
	}
	s := step{name: packing.name, loses: len(rest) > 0, also: len(rest) > 0 && len(missing) > 0}
	var both []byte
	if s.also {
		both = append(append(both, whole...), bytes.Join(rest, nil)...)
	}
	return w.create(s, whole, both)
}

// fill encodes a pack into the memory of whole, or returns nil if an object is missing everywhere.
func (w *writer) fill(p *packing, whole []byte) ([]byte, error) {
	size, missing, absent := int64(len(head)), p.missing, false
	for i := range p.entries {
		size += p.entries[i].size + p.entries[i].size/16 + lineWeight
	}
	whole = append(slices.Grow(whole, int(size)), head...)
	for i := range p.entries {
		slot := p.entries[i].slot()
		if len(missing) == 0 || missing[0].slot() != slot {
			whole = append(whole, p.have.good[slot]...)
			continue
		}
		entry := &missing[0]
		missing = missing[1:]
		if entry.Kind == signed {
			whole = appendSigned(whole, entry.Digest, entry.blob)
			continue
		}
		data, err := entry.bytes, error(nil)
		if data == nil {
			data, err = w.get(entry)
		}
		if errors.Is(err, fs.ErrNotExist) {
			w.lacks(entry.ID)
			absent = true
			continue
		}
		if err != nil {
			return nil, err
		}
		whole = appendLine(whole, entry.ID, data)
		entry.bytes = nil // others may reuse them now
	}
	if absent {
		return nil, nil
	}
	return whole, nil
}

func (w *writer) lacks(id cas.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing = append(w.missing, id)
}

// get returns the bytes of a small object, and hashes them whatever their source.
func (w *writer) get(e *entry) ([]byte, error) {
	b, err := getFrom(w.ctx, w.src, e)
	if err == nil || w.ctx.Err() != nil {
		return b, err
	}
	if b, here := getFrom(w.ctx, w.old, e); here == nil {
		return b, nil
	}
	return nil, err
}

func getFrom(ctx context.Context, src cas.Getter, e *entry) ([]byte, error) {
	o, err := src.Get(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return readEntry(o, e)
}

// readEntry reads an object and checks that it is the requested one.
func readEntry(o cas.Object, entry *entry) ([]byte, error) {
	if o.Size != entry.size {
		return nil, sizeError(entry, o.Size)
	}
	data := make([]byte, 0, entry.size+1)
	for len(data) <= int(entry.size) {
		n, err := o.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if int64(len(data)) != entry.size || cas.Sum(data) != entry.Digest {
		return nil, &cas.DamagedError{ID: entry.ID, Found: cas.Sum(data)}
	}
	return data, nil
}

func sizeError(e *entry, found int64) error {
	return badObject(e.ID, "it has %d bytes, expected %d", found, e.size)
}

func (w *writer) stageLarge(entry *entry) error {
	name := largeName(entry.ID)
	n, err := w.files.hashFile(entry.ID, name)
	if err == nil && n != entry.size {
		return sizeError(entry, n)
	}
	if err == nil || !isOurs(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	object, err := w.src.Get(w.ctx, entry.ID)
	if errors.Is(err, fs.ErrNotExist) {
		w.lacks(entry.ID)
		return nil
	}
	if err != nil {
		return err
	}
	if object.Size != entry.size {
		return errors.Join(sizeError(entry, object.Size), object.Close())
	}
	object = cas.Verify(cas.Info{ID: entry.ID, Size: entry.size}, object)
	defer object.Close()
	w.mu.Lock()
	w.steps = append(w.steps, step{name: name})
	w.mu.Unlock()
	return w.files.Create(tempOf(name), 0o644, func(to *os.File) error {
		_, err := io.Copy(to, cas.Until(w.ctx, object))
		return err
	})
}

// replace moves the staged files into place: first the additions, then the removals.
func (w *writer) replace(gone []string) error {
	if len(w.steps) == 0 && len(gone) == 0 {
		return nil
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	for _, s := range w.steps {
		from := tempOf(s.name)
		if s.also {
			from = bothOf(s.name)
		} else if s.loses {
			continue
		}
		if err := w.files.Place(from, s.name, false); err != nil {
			return err
		}
	}
	if err := w.files.SyncDirectory("."); err != nil {
		return err
	}
	last := slices.DeleteFunc(slices.Clone(w.steps), func(s step) bool { return !s.loses })
	for _, s := range last {
		if err := w.files.Place(tempOf(s.name), s.name, false); err != nil {
			return err
		}
	}
	for _, name := range gone {
		if err := w.files.Remove(name); err != nil {
			return err
		}
	}
	if len(last)+len(gone) == 0 {
		return nil
	}
	return w.files.SyncDirectory(".")
}
