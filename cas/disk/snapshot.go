package disk

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// A snapshot is the packs of a store at one moment. A process can read them even if they are replaced meanwhile. They
// stay open until the snapshot's last user releases it.
type snapshot struct {
	refs  atomic.Int64
	paths []string // the listed packs; nil if all packs are this process's own
	packs []*pack  // most objects first
	bad   []badPackFile
	gone  *gcRecord // the entries gc is about to remove; absent for writers

	once  sync.Once
	saved []*pack // of bad
}

// newSnapshot retains packs. The caller releases the snapshot.
func newSnapshot(packs []*pack) *snapshot {
	for _, p := range packs {
		p.retain()
	}
	return (&snapshot{packs: packs}).retain()
}

func (n *snapshot) retain() *snapshot {
	n.refs.Add(1)
	return n
}

// release ends the use of a snapshot; n may be nil.
func (n *snapshot) release() {
	if n == nil || n.refs.Add(-1) > 0 {
		return
	}
	for _, p := range slices.Concat(n.packs, n.saved) {
		p.release()
	}
}

// A badPackFile is a pack that has no readable index.
type badPackFile struct {
	path string
	err  error
}

// has reports whether a pack has a copy of a record that gc isn't about to remove and for which counts returns true.
// For a writer, garbage and damaged copies don't count.
func (n *snapshot) has(kind cas.Kind, d *cas.Digest, counts func(p *pack, e entry, no int) bool) bool {
	for _, p := range n.packs {
		e, no, err := p.place(kind, d)
		if no >= 0 && err == nil && !n.gone.has(p, &e) && (counts == nil || counts(p, e, no)) {
			return true
		}
	}
	return false
}

// loaded returns the last snapshot, or nil, and whether it is stale. The caller releases it.
func (s *Store) loaded() (snap *snapshot, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap == nil {
		return nil, true
	}
	return s.snap.retain(), s.stale
}

// snapshot returns the last snapshot, or loads one. The caller releases it.
func (s *Store) snapshot() (*snapshot, error) {
	snap, stale := s.loaded()
	if !stale {
		return snap, nil
	}
	snap.release()
	return s.load()
}

// forget makes the next reader list the packs again.
func (s *Store) forget() {
	s.mu.Lock()
	s.stale = true
	s.mu.Unlock()
}

// adopt keeps packs of this process open for the next snapshot.
func (s *Store) adopt(packs []*pack) {
	s.mu.Lock()
	old := s.snap
	if old != nil {
		packs = slices.Concat(old.packs, packs)
	}
	s.snap, s.stale = newSnapshot(packs), true
	s.mu.Unlock()
	old.release()
}

// load lists the packs on disk. It keeps packs that are already open, and the whole last snapshot if the list is the
// same. The caller releases it.
func (s *Store) load() (*snapshot, error) {
	old, _ := s.loaded()
	defer old.release()
	snap, err := s.read(old)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	before := s.snap
	s.snap, s.stale = snap.retain(), false
	s.mu.Unlock()
	before.release()
	return snap, nil
}

// read makes a snapshot, or retains old if it is up to date. The caller releases it. It lists the directory until two
// lists are equal: one list alone, made while one pack replaces another, may have neither.
func (s *Store) read(old *snapshot) (*snapshot, error) {
	gone, err := s.readCondemned()
	if err != nil {
		return nil, err
	}
	// A gc names the doomed packs before it removes the first and until after it has removed the last: two equal lists
	// saw all of them, or none.
	list := func() ([]string, error) {
		doomed, err := s.readRecord(doomedFile)
		if err != nil {
			return nil, err
		}
		if doomed != nil && doomed.all {
			gone = doomed // the remaining ones may lack parts
		}
		paths, err := listPacks(s.dir)
		return slices.DeleteFunc(paths, func(path string) bool {
			return doomed != nil && slices.Contains(doomed.packs, filepath.Base(path))
		}), err
	}
	open := make(map[string]*pack)
	if old != nil {
		for _, p := range old.packs {
			if open[p.path] == nil { // twice if a reader opened the file before the writer's pack was adopted
				p.retain()
				open[p.path] = p
			}
		}
	}
	defer func() {
		for _, p := range open { // the snapshot retains its own packs
			p.release()
		}
	}()
	paths, err := list()
	for range 100 {
		if err != nil {
			return nil, err
		}
		var bad []badPackFile
		if bad, err = openPacks(paths, open); err != nil {
			return nil, err
		}
		was := paths
		if paths, err = list(); err != nil || !slices.Equal(was, paths) {
			continue
		}
		if old != nil && old.paths != nil && slices.Equal(old.paths, paths) && len(old.bad) == len(bad) &&
			old.gone.equal(gone) {
			return old.retain(), nil
		}
		var packs []*pack
		for _, path := range paths {
			if p := open[path]; p != nil {
				packs = append(packs, p)
			}
		}
		slices.SortStableFunc(packs, func(a, b *pack) int { return cmp.Compare(b.foot.entries, a.foot.entries) })
		snap := newSnapshot(packs)
		snap.paths, snap.bad, snap.gone = paths, bad, gone
		return snap, nil
	}
	return nil, fault.Wrap(osfile.Busy(s.dir, 0), "the store %q is busy: other processes keep replacing its packs",
		s.dir)
}

// openPacks opens those of paths that are not in open yet. It returns unreadable packs in bad and skips missing ones.
func openPacks(paths []string, open map[string]*pack) (bad []badPackFile, err error) {
	for _, path := range paths {
		if open[path] != nil {
			continue
		}
		p, err := openPack(path)
		switch {
		case err == nil:
			if want := packName(p.foot.id); filepath.Base(path) != want {
				p.release()
				bad = append(bad, badPackFile{path, badPack("its name should be %q", want)})
				continue
			}
			open[path] = p
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, ErrFormat), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EIO):
			bad = append(bad, badPackFile{path, err})
		default:
			return nil, err // too many open files, for example: no fault of the pack
		}
	}
	return bad, nil
}
