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
func (m *importer) list(worker *worker, folder *dir) error {
	if folder.parent != nil {
		ok, err := m.open(folder)
		if !ok || err != nil {
			return err
		}
	}
	var err error
	if worker.names, err = folder.f.list(&worker.list, worker.names[:0]); err != nil {
		return located(cmp.Or(folder.rel, m.root), err)
	}
	slices.SortFunc(worker.names, func(a, b name) int { return cmp.Compare(a.name, b.name) })
	if err := m.sort(worker, folder); err != nil {
		return err
	}
	if m.problems.full() {
		return nil
	}
	m.recall(folder)
	folder.expect(int32(len(folder.subs)))
	for i := len(folder.subs) - 1; i >= 0; i-- {
		m.push(job{d: &dir{parent: folder, rel: join(folder.rel, folder.subs[i].Name), at: i}})
	}
	if m.problems.any() {
		return nil
	}
	for from := share; from < len(folder.files); from += share {
		folder.expect(1)
		m.push(job{d: folder, from: from, n: min(share, len(folder.files)-from)})
	}
	if n := min(share, len(folder.files)); n > 0 {
		return m.filesOf(worker, folder, 0, n)
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
func (m *importer) sort(w *worker, dir *dir) error {
	files, subs := 0, 0
	for i := range w.names {
		if w.names[i].mode == fs.ModeDir {
			subs++
		} else {
			files++
		}
	}
	dir.files, dir.subs = make([]file, 0, files), make([]statcache.Sub, 0, subs)
	for _, n := range w.names {
		if n.mode == unknownMode {
			s, err := dir.f.stat(n.name)
			if err != nil {
				return m.swapped(join(dir.rel, n.name), err)
			}
			n.mode = modeOf(s.Mode)
		}
		if portable.Droppings(n.name) {
			m.droppings.Add(1)
			continue
		}
		path := ""
		if m.Skip != nil || m.Files != nil || m.Look != nil {
			path = join(dir.rel, n.name)
		}
		if m.Skip != nil && m.Skip(path, n.mode == fs.ModeDir) {
			m.leftBySkip.Add(1)
			continue
		}
		if err := checkName(dir.rel, n.name); err != nil {
			m.problems.add(join(dir.rel, n.name), err)
			continue
		}
		switch n.mode {
		case 0:
			dir.files = append(dir.files, file{name: n.name, path: path})
		case fs.ModeDir:
			dir.subs = append(dir.subs, statcache.Sub{Name: n.name})
		default:
			m.problems.add(join(dir.rel, n.name), describe(n.mode))
		}
	}
	if len(dir.files)+len(dir.subs) > cas.MaxTreeEntries {
		return located(cmp.Or(dir.rel, m.root), errTooMany)
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

// recall looks up the cache's records of dir's files.
func (m *importer) recall(dir *dir) {
	dir.fresh = true
	if m.Cache == nil || !dir.info.stamps {
		return
	}
	dir.old = m.Cache.Get(m.ctx, dir.info.dev, absOf(m.root, dir.rel), m.begin)
	if dir.old == nil {
		return
	}
	dir.fresh = false
	files := dir.files
	for r := range dir.old.Files() {
		for len(files) > 0 && files[0].name < string(r.Name()) {
			files = files[1:]
		}
		if len(files) > 0 && files[0].name == string(r.Name()) {
			files[0].record = r
		} else {
			dir.fresh = true // a file was deleted
		}
	}
}

// filesOf finds the digests of n of dir's files: remembered digests first, with one question to the store, the rest by
// reading.
func (m *importer) filesOf(worker *worker, dir *dir, from, n int) error {
	if m.problems.any() {
		return nil
	}
	files := dir.files[from : from+n]
	if dir.old != nil {
		if err := m.remembered(worker, dir, files); err != nil {
			return err
		}
	}
	for i := range files {
		if f := &files[i]; !f.known {
			if m.ctx.Err() != nil {
				return context.Cause(m.ctx)
			}
			if err := m.readFile(worker, dir, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// remembered uses the remembered digests of unchanged files that the store has.
func (m *importer) remembered(worker *worker, d *dir, files []file) error {
	worker.ids, worker.at = worker.ids[:0], worker.at[:0]
	for i := range files {
		file := &files[i]
		if file.record.IsZero() {
			continue
		}
		s, err := d.f.stat(file.name)
		if err != nil {
			return m.swapped(join(d.rel, file.name), err)
		}
		if s != file.record.Stamp() {
			continue
		}
		file.stamp, file.size, file.mode, file.digest, file.known = s, s.Size, modeFor(s.Mode),
			file.record.Digest(), true
		worker.ids, worker.at = append(worker.ids, cas.ID{Kind: cas.Blob, Digest: file.digest}),
			append(worker.at, int32(i))
	}
	missing, err := m.batch.Missing(m.ctx, worker.ids)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		lacks := make(map[cas.ID]bool, len(missing))
		for _, id := range missing {
			lacks[id] = true
		}
		for i, id := range worker.ids {
			files[worker.at[i]].known = !lacks[id]
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

// done ends one job of dir. If it was the last, it makes dir's tree and ends dir in its parent, and so on.
func (m *importer) done(w *worker, dir *dir) error {
	for dir.open.Add(-1) == 0 {
		if m.problems.any() {
			if dir.parent == nil {
				return nil
			}
			dir = dir.parent
			continue
		}
		tree, err := m.makeTree(w, dir)
		if err != nil {
			return err
		}
		if dir.parent == nil {
			m.id = cas.ID{Kind: cas.TreeKind, Digest: tree}
			return nil
		}
		if tree == cas.EmptyTree {
			m.emptyDirs.Add(1)
			tree = cas.Digest{}
		}
		dir.parent.subs[dir.at].Digest = tree
		dir = dir.parent
	}
	return nil
}

// makeTree puts the tree of a directory whose entries are all finished.
func (m *importer) makeTree(worker *worker, dir *dir) (cas.Digest, error) {
	if m.Files != nil && len(dir.files) > 0 {
		worker.listed = worker.listed[:0]
		for i := range dir.files {
			f := &dir.files[i]
			worker.listed = append(worker.listed, File{f.path,
				cas.Entry{Name: f.name, Mode: f.mode, Digest: f.digest, Size: f.size},
				!f.known})
		}
		m.Files(worker.listed)
	}
	if !dir.fresh && dir.unchanged() {
		worker.ids = append(worker.ids[:0], cas.ID{Kind: cas.TreeKind, Digest: dir.old.Tree()})
		missing, err := m.batch.Missing(m.ctx, worker.ids)
		if err != nil {
			return cas.Digest{}, err
		}
		if len(missing) == 0 {
			m.dirs.Add(1)
			return dir.old.Tree(), nil
		}
	}
	worker.entries = merged(worker.entries[:0], dir)
	var err error
	if worker.tree, err = cas.AppendTree(worker.tree[:0], worker.entries); err != nil {
		if te, ok := errors.AsType[*cas.TreeError](err); ok {
			m.problems.add(join(dir.rel, te.Name), te.Err)
			return cas.Digest{}, nil
		}
		return cas.Digest{}, located(cmp.Or(dir.rel, m.root), err)
	}
	if len(worker.entries) == 0 && dir.parent != nil {
		return cas.EmptyTree, nil
	}
	m.dirs.Add(1)
	tree, err := m.batch.PutBytes(m.ctx, cas.TreeKind, worker.tree)
	if err != nil {
		return cas.Digest{}, err
	}
	if m.Cache != nil && dir.info.stamps {
		m.remember(worker, dir, tree)
	}
	return tree, nil
}

// remember writes those of dir's files to the cache that are safe to remember.
func (m *importer) remember(worker *worker, dir *dir, tree cas.Digest) {
	worker.recall = worker.recall[:0]
	for i := range dir.files {
		if f := &dir.files[i]; f.stamp != (statcache.Stamp{}) {
			worker.recall = append(worker.recall, statcache.File{Name: f.name, Stamp: f.stamp, Digest: f.digest})
		}
	}
	if len(worker.recall) < len(dir.files) {
		// If a file isn't recorded, the next import can't notice its removal.
		tree = cas.Digest{}
	}
	now := &statcache.Dir{Dev: dir.info.dev, Path: absOf(m.root, dir.rel), Tree: tree, Files: worker.recall,
		Subs: dir.subs}
	m.Cache.Put(m.ctx, dir.old, now, m.begin)
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
