package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/checkedbolt"
	"github.com/rye-build/rye/cas/statcache"
)

// An Index caches the records of one catalog's files. Problems with its own file are never errors. It is safe for
// concurrent use, also by several processes.
type Index struct {
	path  string
	limit int64                   // bytes; a larger index is not written
	full  int                     // bytes of a full segment
	wait  time.Duration           // how long to wait for another process before working without the file
	now   func() statcache.Moment // the clock
}

// Stats describe a search or an update.
type Stats struct {
	Files   int   // in the catalog
	Kept    int   // unchanged since the cached state
	Read    int   // loaded
	Gone    int   // in the cached state, but removed since
	Records int   // searchable
	Bytes   int64 // of the index
	Rebuilt bool  // the file was damaged or of another version, and was removed
	Note    string
	Unread  []*FileError // files that could not be loaded, so the search doesn't cover them
}

// A FileError reports why a file could not be loaded.
type FileError struct {
	Space, Path string
	Err         error
}

func (e *FileError) Error() string { return fmt.Sprintf("%q in %s: %v", e.Path, e.Space, e.Err) }

func (e *FileError) Unwrap() error { return e.Err }

// Open returns the index in the file path, which the first write creates. It opens nothing yet. An index is for one
// catalog: it drops the files of any other.
func Open(path string) *Index {
	return &Index{path: path, limit: 512 << 20, full: fullSegment, wait: 2 * time.Second, now: statcache.NewClock()}
}

// run updates the state and calls ask. After two damaged files it works without one.
func (x *Index) run(ctx context.Context, c Catalog, ask func(*view) error) (st Stats, err error) {
	rebuilt, dir := false, filepath.Dir(x.path)
	for tries := 0; tries < 3; tries++ {
		st, err = x.try(ctx, c, ask, dir, tries == 2)
		if errors.Is(err, errSpill) && dir != "" {
			dir = ""
			continue
		}
		if !errors.Is(err, errDamaged) {
			break
		}
		rebuilt = true
	}
	st.Rebuilt = st.Rebuilt || rebuilt
	return st, err
}

// try begins by listing the files, so that its results are never older than its call. New segments wait in dir.
func (x *Index) try(ctx context.Context, catalog Catalog, ask func(*view) error, dir string, afresh bool) (st Stats,
	err error) {
	begin := x.now()
	files, err := catalog.Files(ctx)
	if err == nil {
		files, err = sortFiles(files)
	}
	if err != nil {
		return st, err
	}
	base := x.base(ctx, cas.Sum([]byte(catalog.Schema())), afresh)
	defer func() {
		if errors.Is(err, errDamaged) {
			base.discard()
		}
		base.close()
	}()
	p := base.state.plan(files, begin)
	st = Stats{Files: len(files), Kept: len(files) - len(p.load), Read: len(p.load), Gone: p.gone,
		Rebuilt: base.rebuilt,
		Note:    base.note}
	w := newWriter(dir, x.full, min(runtime.GOMAXPROCS(0), 4, 1+len(p.load)/buildAlone))
	defer w.close()
	found, err := base.state.load(ctx, catalog, files, p, w)
	if err != nil {
		return st, err
	}
	next, changed := base.state.next(files, p, found, begin, &st)
	made, err := w.finish()
	if err != nil {
		return st, err
	}
	next.segs = append(next.segs, made...)
	err = base.guarded(func() error {
		for _, g := range next.segs {
			if err := g.open(); err != nil {
				return err
			}
		}
		v, err := newView(next.segs, next.entries)
		if err != nil {
			return err
		}
		st.Records = v.live
		return ask(v)
	})
	if err != nil {
		return st, err
	}
	for _, g := range next.segs {
		st.Bytes += int64(g.bytes())
	}
	if changed {
		m := newWriter(dir, x.full, 1)
		defer m.close()
		err = x.keep(ctx, base, next, m, begin, &st)
	}
	return st, err
}

// A base is the cached state and its open file, or nil.
type base struct {
	state   *state
	file    *reader
	busy    bool
	rebuilt bool
	note    string
}

func (x *Index) base(ctx context.Context, schema cas.Digest, afresh bool) *base {
	base := &base{state: &state{schema: schema}}
	if afresh {
		return base
	}
	f, err := openReader(ctx, x.path, x.wait)
	base.file = f
	var s *state
	if err == nil {
		err = checkedbolt.Guarded(func() (err error) {
			s, err = f.state()
			return err
		})
	}
	switch {
	case err == nil && s.schema == schema:
		base.state = s
	case err == nil:
		base.close()
	case errors.Is(err, errDamaged):
		base.discard()
	case !errors.Is(err, fs.ErrNotExist):
		base.busy, base.note = true, unavailable(err)
	}
	return base
}

// unavailable returns why the file is not used.
func unavailable(err error) string {
	if errors.Is(err, checkedbolt.ErrBusy) {
		return "another process holds the search index; everything was read"
	}
	return "the search index is not used: " + err.Error()
}

// guarded calls f, which reads the base.
func (b *base) guarded(f func() error) error {
	if b.file == nil {
		return f()
	}
	return checkedbolt.Guarded(f)
}

func (b *base) close() {
	if b.file != nil {
		b.file.Close()
		b.file = nil
	}
}

// discard removes a damaged file. The next writer creates a new one.
func (b *base) discard() {
	b.rebuilt = true
	if b.file != nil {
		b.file.Discard()
		b.file = nil
	}
}

// loadedFile is the result of loading a file.
type loadedFile struct {
	err        error
	hash       [16]byte // of the file's records
	count      int
	same       bool // same records as in the state
	seg, first int  // otherwise their place in the new segments
}

// buildAlone is how many files justify a second segment.
const buildAlone = 256

// load loads the files of a plan, several at once, and adds new records to writer.
func (s *state) load(ctx context.Context, catalog Catalog, files []File, plan *plan, writer *writer) ([]loadedFile,
	error) {
	out := make([]loadedFile, len(plan.load))
	errs := make([]error, min(runtime.GOMAXPROCS(0), len(out)))
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			var buf []byte
			var encoded [][]byte
			for ctx.Err() == nil && errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(out) {
					return
				}
				loadedFile, at := &out[i], plan.load[i]
				var records []Record
				if records, loadedFile.err = catalog.Load(ctx, files[at]); loadedFile.err == nil {
					loadedFile.err = check(records)
				}
				if loadedFile.err != nil {
					continue
				}
				buf, encoded = encode(records, buf[:0], encoded[:0])
				sum := cas.Sum(buf)
				copy(loadedFile.hash[:], sum[:])
				loadedFile.count = len(records)
				loadedFile.same = plan.old[at] >= 0 && s.entries[plan.old[at]].hash == loadedFile.hash
				if loadedFile.count > 0 && !loadedFile.same {
					loadedFile.seg, loadedFile.first, errs[worker] = writer.add(worker, records, encoded)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return out, errors.Join(errs...)
}

// encode appends the written form of records to buf, and to parts the range of each.
func encode(records []Record, buf []byte, parts [][]byte) ([]byte, [][]byte) {
	for i := range records {
		from := len(buf)
		buf = appendRecord(buf, &records[i])
		parts = append(parts, buf[from:]) // which stay valid if buf moves
	}
	return buf, parts
}

// next returns the state after a plan, without the new segments, and reports whether it differs from s.
func (s *state) next(files []File, plan *plan, found []loadedFile, begin statcache.Moment, st *Stats) (*state, bool) {
	if len(plan.load)+plan.gone == 0 && s.gen != 0 {
		return s, false
	}
	n := &state{schema: s.schema, gen: s.gen, segs: slices.Clone(s.segs), entries: make([]entry, 0, len(files))}
	changed := plan.gone > 0 || s.gen == 0 && len(s.entries) == 0
	for i, l := 0, 0; i < len(files); i++ {
		if l == len(plan.load) || plan.load[l] != i {
			n.entries = append(n.entries, s.entries[plan.old[i]])
			continue
		}
		file, got := &files[i], &found[l]
		l++
		if got.err != nil {
			if errors.Is(got.err, fs.ErrNotExist) {
				st.Files, st.Read, st.Gone = st.Files-1, st.Read-1, st.Gone+1
			} else {
				st.Unread = append(st.Unread, &FileError{file.Space, file.Path, got.err})
			}
			changed = changed || plan.old[i] >= 0
			continue
		}
		entry := entry{space: file.Space, path: file.Path, digest: file.Digest, hash: got.hash, count: got.count}
		if file.Digest.IsZero() && file.Stat.Sure && begin.Settled(file.Stat.Mtime, file.Stat.Ctime) {
			entry.stat = file.Stat
		}
		if got.same {
			old := &s.entries[plan.old[i]]
			entry.seg, entry.first = old.seg, old.first
			changed = changed || *old != entry
		} else {
			changed = true
			if entry.count > 0 {
				entry.seg, entry.first = len(s.segs)+got.seg, got.first
			}
		}
		n.entries = append(n.entries, entry)
	}
	return n, changed
}

// maxSegments bounds the segments that aren't full, because a query searches all of them.
const maxSegments = 8

// merge drops unused segments. It merges those that are more than half garbage and, if there are too many, the
// smallest. Full segments stay, and the result may be several full segments.
func (s *state) merge(writer *writer) error {
	live := make([]int, len(s.segs))
	for i := range s.entries {
		if s.entries[i].count > 0 {
			live[s.entries[i].seg] += s.entries[i].count
		}
	}
	order := make([]int, 0, len(s.segs)) // segments in use that aren't full, the smallest first
	merged := make([]bool, len(s.segs))
	for i, n := range live {
		if n > 0 && s.segs[i].bytes() < writer.full {
			order = append(order, i)
		}
		merged[i] = 2*n < len(s.segs[i].docs)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(live[a], live[b]) })
	if excess := len(order) - maxSegments; excess > 0 {
		for _, i := range order[:excess+maxSegments/2] {
			merged[i] = true
		}
	}
	kept, place := make([]*segment, 0, len(s.segs)), make([]int, len(s.segs))
	for i, g := range s.segs {
		if place[i] = len(kept); !merged[i] && live[i] > 0 {
			kept = append(kept, g)
		}
	}
	for i := range s.entries {
		entry := &s.entries[i]
		if entry.count == 0 {
			entry.seg = 0
			continue
		}
		if !merged[entry.seg] {
			entry.seg = place[entry.seg]
			continue
		}
		if err := s.move(entry, writer); err != nil {
			return err
		}
		entry.seg += len(kept)
	}
	made, err := writer.finish()
	s.segs = append(kept, made...)
	return err
}

// move adds the records of an entry to writer, and updates their place.
func (s *state) move(entry *entry, writer *writer) (err error) {
	g := s.segs[entry.seg]
	records, encoded := make([]Record, entry.count), make([][]byte, entry.count)
	for i := range records {
		p := &g.docs[entry.first+i]
		if encoded[i], err = g.read(recordStream, p.at, p.size); err != nil {
			return err
		}
		r, err := decodeRecord(encoded[i])
		if err != nil {
			return err
		}
		records[i] = *r
	}
	entry.seg, entry.first, err = writer.add(0, records, encoded)
	return err
}

// keep writes a state into the file if possible. Otherwise the next search reads the same files again.
func (x *Index) keep(ctx context.Context, base *base, state *state, w *writer, begin statcache.Moment,
	st *Stats) error {
	now := x.now()
	switch {
	case now.SetBackSince(begin):
		st.Note = "the clock was set back; nothing is remembered"
		return nil
	case base.busy:
		return nil
	}
	if err := base.guarded(func() error { return state.merge(w) }); err != nil {
		return err
	}
	size := int64(0)
	for _, g := range state.segs {
		size += int64(g.bytes())
		g.docs, g.blocks = nil, nil // no further query needs them
		if g.isNew() {
			g.id = rand.Uint64()
		}
	}
	if size > x.limit {
		st.Note = fmt.Sprintf("the search index would have %d bytes, more than %d", size, x.limit)
		return nil
	}
	base.close()
	gen := state.gen
	state.gen = rand.Uint64() | 1
	if err := write(ctx, x.path, state, gen, state.encode(now), x.wait); err != nil && !errors.Is(err, errOvertaken) {
		st.Note = unavailable(err)
	}
	return nil
}
