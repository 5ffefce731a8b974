package worktree

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/statcache"
)

// share is how many files of one directory make a job. A larger directory keeps several workers busy.
const share = 256

// maxPath is the longest path that package portable allows.
const maxPath = 1000

// A dir is a directory during its import.
type dir struct {
	parent *dir
	rel    string // "" for the root
	at     int    // in parent.subs
	single bool   // not a directory, but the file that Import was called for

	f     folder
	info  folderInfo
	users atomic.Int32 // of f, which the last one closes
	open  atomic.Int32 // unfinished jobs and directories that the tree needs

	files []file
	subs  []statcache.Sub  // whose digests are zero until done
	old   *statcache.Known // what the cache remembered, or nil
	fresh bool             // nothing was remembered, or the directory has changed
}

// A file is a regular file of a directory.
type file struct {
	name   string
	path   string // below the import's root, if Options.Skip, Files or Look need it
	digest cas.Digest
	size   int64
	stamp  statcache.Stamp // from before the read; zero if the file must not be remembered
	mode   cas.Mode
	record statcache.Record // of old
	known  bool             // the digest was remembered
}

// expect adds n users and n open jobs, before those begin.
func (d *dir) expect(n int32) {
	d.users.Add(n)
	d.open.Add(n)
}

// release ends one use of d's folder.
func (d *dir) release() {
	if d.users.Add(-1) == 0 && d.f != nil {
		d.f.close()
	}
}

// abandon releases d for a job that will not run.
func (d *dir) abandon() {
	if d.f == nil {
		d.parent.release()
		return
	}
	d.release()
}

// list opens a directory and reads its names. Other workers take its subdirectories and most of its files.
func (m *importer) list(w *worker, d *dir) error {
	if d.parent != nil {
		ok, err := m.open(d)
		if !ok || err != nil {
			return err
		}
	}
	var err error
	if w.names, err = d.f.list(&w.list, w.names[:0]); err != nil {
		return located(cmp.Or(d.rel, m.root), err)
	}
	slices.SortFunc(w.names, func(a, b name) int { return cmp.Compare(a.name, b.name) })
	if err := m.sort(w, d); err != nil {
		return err
	}
	if m.problems.full() {
		return nil
	}
	m.recall(d)
	d.expect(int32(len(d.subs)))
	for i := len(d.subs) - 1; i >= 0; i-- {
		m.push(job{d: &dir{parent: d, rel: join(d.rel, d.subs[i].Name), at: i}})
	}
	if m.problems.any() {
		return nil
	}
	for from := share; from < len(d.files); from += share {
		d.expect(1)
		m.push(job{d: d, from: from, n: min(share, len(d.files)-from)})
	}
	if n := min(share, len(d.files)); n > 0 {
		return m.filesOf(w, d, 0, n)
	}
	return nil
}

// open opens d in its parent.
func (m *importer) open(d *dir) (bool, error) {
	defer d.parent.release()
	f, info, err := d.parent.f.sub(d.parent.subs[d.at].Name)
	d.expect(1)
	if err == nil {
		d.f, d.info = f, info
		return true, nil
	}
	return false, m.swapped(d.rel, err)
}

// swapped handles an entry whose type changed after it was listed.
func (m *importer) swapped(path string, err error) error {
	if k, ok := errors.AsType[*KindError](err); ok {
		m.problems.add(path, k)
		return nil
	}
	for _, gone := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, errSwapped} {
		if errors.Is(err, gone) {
			return changed(path, gone)
		}
	}
	return located(path, err)
}

// sort separates files, directories, and entries that are left out or refused.
func (m *importer) sort(w *worker, d *dir) error {
	files, subs := 0, 0
	for i := range w.names {
		if w.names[i].mode == fs.ModeDir {
			subs++
		} else {
			files++
		}
	}
	d.files, d.subs = make([]file, 0, files), make([]statcache.Sub, 0, subs)
	for _, n := range w.names {
		if n.mode == unknownMode {
			s, err := d.f.stat(n.name)
			if err != nil {
				return m.swapped(join(d.rel, n.name), err)
			}
			n.mode = modeOf(s.Mode)
		}
		if portable.Droppings(n.name) {
			m.droppings.Add(1)
			continue
		}
		path := ""
		if m.Skip != nil || m.Files != nil || m.Look != nil {
			path = join(d.rel, n.name)
		}
		if m.Skip != nil && m.Skip(path, n.mode == fs.ModeDir) {
			m.leftBySkip.Add(1)
			continue
		}
		if err := checkName(d.rel, n.name); err != nil {
			m.problems.add(join(d.rel, n.name), err)
			continue
		}
		switch n.mode {
		case 0:
			d.files = append(d.files, file{name: n.name, path: path})
		case fs.ModeDir:
			d.subs = append(d.subs, statcache.Sub{Name: n.name})
		default:
			m.problems.add(join(d.rel, n.name), describe(n.mode))
		}
	}
	if len(d.files)+len(d.subs) > cas.MaxTreeEntries {
		return located(cmp.Or(d.rel, m.root), errTooMany)
	}
	return nil
}

var (
	errTooMany = errors.New("more files than a tree may have in one directory")
	errSwapped = errors.New("replaced by something else")
)

// checkName checks a name, and that the whole path isn't too long.
func checkName(rel, name string) error {
	if len(rel)+1+len(name) > maxPath {
		return portable.Check(join(rel, name))
	}
	return portable.CheckName(name)
}

// recall looks up the cache's records of d's files.
func (m *importer) recall(d *dir) {
	d.fresh = true
	if m.Cache == nil || !d.info.stamps {
		return
	}
	d.old = m.Cache.Get(m.ctx, d.info.dev, absOf(m.root, d.rel), m.begin)
	if d.old == nil {
		return
	}
	d.fresh = false
	files := d.files
	for r := range d.old.Files() {
		for len(files) > 0 && files[0].name < string(r.Name()) {
			files = files[1:]
		}
		if len(files) > 0 && files[0].name == string(r.Name()) {
			files[0].record = r
		} else {
			d.fresh = true // a file was deleted
		}
	}
}

// filesOf finds the digests of n of d's files: remembered digests first, with one question to the store, the rest by
// reading.
func (m *importer) filesOf(w *worker, d *dir, from, n int) error {
	if m.problems.any() {
		return nil
	}
	files := d.files[from : from+n]
	if d.old != nil {
		if err := m.remembered(w, d, files); err != nil {
			return err
		}
	}
	for i := range files {
		if f := &files[i]; !f.known {
			if m.ctx.Err() != nil {
				return context.Cause(m.ctx)
			}
			if err := m.readFile(w, d, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// remembered uses the remembered digests of unchanged files that the store has.
func (m *importer) remembered(w *worker, d *dir, files []file) error {
	w.ids, w.at = w.ids[:0], w.at[:0]
	for i := range files {
		f := &files[i]
		if f.record.IsZero() {
			continue
		}
		s, err := d.f.stat(f.name)
		if err != nil {
			return m.swapped(join(d.rel, f.name), err)
		}
		if s != f.record.Stamp() {
			continue
		}
		f.stamp, f.size, f.mode, f.digest, f.known = s, s.Size, modeFor(s.Mode), f.record.Digest(), true
		w.ids, w.at = append(w.ids, cas.ID{Kind: cas.Blob, Digest: f.digest}), append(w.at, int32(i))
	}
	missing, err := m.batch.Missing(m.ctx, w.ids)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		lacks := make(map[cas.ID]bool, len(missing))
		for _, id := range missing {
			lacks[id] = true
		}
		for i, id := range w.ids {
			files[w.at[i]].known = !lacks[id]
		}
	}
	var count, bytes int64
	for i := range files {
		if files[i].known {
			count++
			bytes += files[i].size
		}
	}
	m.Cache.Count(count, 0)
	m.progress(count, bytes)
	return nil
}

func modeFor(mode uint32) cas.Mode {
	if mode&execBit != 0 {
		return cas.Exec
	}
	return cas.File
}

// done ends one job of d. If it was the last, it makes d's tree and ends d in its parent, and so on.
func (m *importer) done(w *worker, d *dir) error {
	for d.open.Add(-1) == 0 {
		if m.problems.any() {
			if d.parent == nil {
				return nil
			}
			d = d.parent
			continue
		}
		tree, err := m.makeTree(w, d)
		if err != nil {
			return err
		}
		if d.parent == nil {
			m.id = cas.ID{Kind: cas.TreeKind, Digest: tree}
			return nil
		}
		if tree == cas.EmptyTree {
			m.emptyDirs.Add(1)
			tree = cas.Digest{}
		}
		d.parent.subs[d.at].Digest = tree
		d = d.parent
	}
	return nil
}

// makeTree puts the tree of a directory whose entries are all finished.
func (m *importer) makeTree(w *worker, d *dir) (cas.Digest, error) {
	if m.Files != nil && len(d.files) > 0 {
		w.listed = w.listed[:0]
		for i := range d.files {
			f := &d.files[i]
			w.listed = append(w.listed, File{f.path,
				cas.Entry{Name: f.name, Mode: f.mode, Digest: f.digest, Size: f.size},
				!f.known})
		}
		m.Files(w.listed)
	}
	if !d.fresh && d.unchanged() {
		w.ids = append(w.ids[:0], cas.ID{Kind: cas.TreeKind, Digest: d.old.Tree()})
		missing, err := m.batch.Missing(m.ctx, w.ids)
		if err != nil {
			return cas.Digest{}, err
		}
		if len(missing) == 0 {
			m.dirs.Add(1)
			return d.old.Tree(), nil
		}
	}
	w.entries = merged(w.entries[:0], d)
	var err error
	if w.tree, err = cas.AppendTree(w.tree[:0], w.entries); err != nil {
		if te, ok := errors.AsType[*cas.TreeError](err); ok {
			m.problems.add(join(d.rel, te.Name), te.Err)
			return cas.Digest{}, nil
		}
		return cas.Digest{}, located(cmp.Or(d.rel, m.root), err)
	}
	if len(w.entries) == 0 && d.parent != nil {
		return cas.EmptyTree, nil
	}
	m.dirs.Add(1)
	tree, err := m.batch.PutBytes(m.ctx, cas.TreeKind, w.tree)
	if err != nil {
		return cas.Digest{}, err
	}
	if m.Cache != nil && d.info.stamps {
		m.remember(w, d, tree)
	}
	return tree, nil
}

// remember writes those of d's files to the cache that are safe to remember.
func (m *importer) remember(w *worker, d *dir, tree cas.Digest) {
	w.recall = w.recall[:0]
	for i := range d.files {
		if f := &d.files[i]; f.stamp != (statcache.Stamp{}) {
			w.recall = append(w.recall, statcache.File{Name: f.name, Stamp: f.stamp, Digest: f.digest})
		}
	}
	if len(w.recall) < len(d.files) {
		// If a file isn't recorded, the next import can't notice its removal.
		tree = cas.Digest{}
	}
	now := &statcache.Dir{Dev: d.info.dev, Path: absOf(m.root, d.rel), Tree: tree, Files: w.recall, Subs: d.subs}
	m.Cache.Put(m.ctx, d.old, now, m.begin)
}

// unchanged reports whether the remembered tree matches the directory now.
func (d *dir) unchanged() bool {
	for i := range d.files {
		if !d.files[i].known {
			return false
		}
	}
	n := 0
	for s := range d.old.Subs() {
		if n == len(d.subs) || d.subs[n] != s {
			return false
		}
		n++
	}
	return n == len(d.subs) && !d.old.Tree().IsZero()
}

// merged appends the entries of d's tree, sorted by name.
func merged(dst []cas.Entry, d *dir) []cas.Entry {
	files, subs := d.files, d.subs
	for len(files) > 0 || len(subs) > 0 {
		if len(subs) == 0 || len(files) > 0 && files[0].name < subs[0].Name {
			f := &files[0]
			dst = append(dst, cas.Entry{Name: f.name, Mode: f.mode, Digest: f.digest, Size: f.size})
			files = files[1:]
			continue
		}
		if !subs[0].Digest.IsZero() {
			dst = append(dst, cas.Entry{Name: subs[0].Name, Mode: cas.Dir, Digest: subs[0].Digest})
		}
		subs = subs[1:]
	}
	return dst
}

// growth is how many bytes beyond its original size a file may have: a file that a process writes to forever must not
// be read forever.
func growth(size int64) int64 {
	const least = 64 << 20
	if size > math.MaxInt64/2-least {
		return math.MaxInt64
	}
	return 2*size + least
}
