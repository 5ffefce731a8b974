package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rye-build/rye/cas"

	"github.com/rye-build/rye/cas/fault"
)

// Format and MinReader go into a new store's format file: the version of its layout, and the oldest version of this
// package that can read it.
const (
	Format    = 2
	MinReader = 2
)

// Options are the options of Open.
type Options struct {
	// Create creates the store if it is missing.
	Create bool
	// ReadOnly changes nothing on disk, for a store on read-only media or of another user.
	ReadOnly bool
	// Wait is how long to wait for another process's lock; 30 s when zero.
	Wait time.Duration
	// Now is the clock; time.Now when nil. Only the age of garbage depends on it.
	Now func() time.Time
	// Hook sees every change to the store's files before it happens, and may fail it. Tests use it.
	Hook func(Op) error
}

// A Store is a directory of packs. It is safe for concurrent use, and many processes may have it open. The caller
// of Open closes it. It implements cas.Store, cas.Batcher, cas.Visitor and cas.Lister.
type Store struct {
	dir      string
	files    files
	readOnly bool
	wait     time.Duration
	now      func() time.Time

	packObjects, fanout int                           // the constants; tests set smaller ones
	encoder             func() (*zstd.Encoder, error) // shared: EncodeAll is safe for concurrent use

	mu    sync.Mutex
	snap  *snapshot // the last one loaded
	stale bool      // use only the open packs of snap
	spare []*blockCache
}

// A VersionError reports a store whose format this package can't write, and perhaps can't read.
type VersionError struct {
	Dir             string
	Format, Readers int // the store's format, and the oldest format whose readers understand it
}

// Readable reports whether the store can be opened with Options.ReadOnly.
func (e *VersionError) Readable() bool { return e.Format > Format && e.Readers <= Format }

func (e *VersionError) Error() string {
	if e.Readable() {
		return fmt.Sprintf("the store %q has format %d: this rye can read it, but writes format %d", e.Dir, e.Format,
			Format)
	}
	return fmt.Sprintf("the store %q has format %d, which needs a reader of format %d or later: this rye has %d",
		e.Dir, e.Format, e.Readers, Format)
}

// Fault returns e with its code.
func (e *VersionError) Fault() *fault.Error {
	return fault.New(fault.VersionMismatch, "%s", e).From(e).Try("rye version")
}

func (s *Store) errReadOnly() error {
	return fault.New(fault.Files, "the store %q is read-only", s.dir)
}

// Open opens the store in dir. A missing store is fs.ErrNotExist unless options.Create.
func Open(dir string, options Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	store := &Store{dir: dir, files: files{hook: options.Hook}, readOnly: options.ReadOnly, wait: options.Wait,
		now:         options.Now,
		packObjects: packObjects, fanout: fanout, encoder: sync.OnceValues(newEncoder)}
	if store.wait == 0 {
		store.wait = 30 * time.Second
	}
	if store.now == nil {
		store.now = time.Now
	}
	err = store.checkFormat()
	if errors.Is(err, fs.ErrNotExist) {
		if other := store.vacant(); other != nil {
			err = other
		} else if options.Create && !options.ReadOnly {
			err = store.create()
		}
	}
	if err != nil {
		return nil, err
	}
	if !options.ReadOnly {
		// A backup may have left out empty directories. If one can't be created, a later write fails.
		for _, d := range folders {
			if _, err := os.Lstat(filepath.Join(dir, d)); errors.Is(err, fs.ErrNotExist) {
				store.files.mkdir(filepath.Join(dir, d))
			}
		}
	}
	return store, nil
}

func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(blockMax), zstd.WithSingleSegment(true),
		zstd.WithLowerEncoderMem(true))
}

// Dir returns the absolute path of the store.
func (s *Store) Dir() string { return s.dir }

// Close closes the store's files. Open objects stay readable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snap.release()
	s.snap = nil
	for _, k := range s.spare {
		k.c.close()
	}
	s.spare = nil
	return nil
}

// settle makes the names of a snapshot's packs durable: another process may have named them just now.
func (s *Store) settle(snap *snapshot) error {
	if !slices.ContainsFunc(snap.packs, func(p *pack) bool { return !p.durable.Load() }) {
		return nil
	}
	if err := s.files.syncDir(filepath.Join(s.dir, "packs")); err != nil {
		return err
	}
	for _, p := range snap.packs {
		p.durable.Store(true)
	}
	return nil
}

// Missing implements cas.Misser.
func (s *Store) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	snap, err := s.load()
	if err != nil {
		return nil, err
	}
	defer snap.release()
	return missing(ctx, ids, func(kind cas.Kind, d *cas.Digest) bool {
		return isObject(kind) && snap.has(kind, d, nil)
	})
}

// Get implements cas.Getter. It skips a damaged copy if the store has an intact one.
func (s *Store) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if ctx.Err() != nil {
		return cas.Object{}, context.Cause(ctx)
	}
	if !isObject(id.Kind) {
		return cas.Object{}, cas.NotFound(id)
	}
	snap, err := s.snapshot()
	if err != nil {
		return cas.Object{}, err
	}
	o, err := s.open(ctx, snap, id)
	snap.release()
	if !errors.Is(err, fs.ErrNotExist) {
		return o, err
	}
	// Another process may have put the object, or moved it to another pack, since the snapshot.
	if snap, err = s.load(); err != nil {
		return cas.Object{}, err
	}
	defer snap.release()
	return s.open(ctx, snap, id)
}

func (s *Store) open(ctx context.Context, snap *snapshot, id cas.ID) (cas.Object, error) {
	k := s.takeCache()
	defer s.giveCache(k)
	o, err := s.openIn(ctx, snap, snap.packs, id, k)
	if err == nil {
		return o, nil
	}
	if o, err := s.openIn(ctx, snap, snap.salvaged(k.c), id, k); err == nil {
		return o, nil
	}
	return cas.Object{}, err
}

// openIn opens the first intact copy of an object in some packs.
func (s *Store) openIn(ctx context.Context, snap *snapshot, packs []*pack, id cas.ID, k *blockCache) (cas.Object,
	error) {
	var damage error
	for _, p := range packs {
		e, ok, err := p.lookup(id.Kind, &id.Digest)
		if err == nil && ok {
			var o cas.Object
			if o, err = s.openAt(ctx, snap, id, p, e, k); err == nil {
				return o, nil
			}
		}
		if err != nil && damage == nil {
			damage = asDamage(id, err)
		}
	}
	if damage == nil {
		damage = cas.NotFound(id)
	}
	return cas.Object{}, damage
}

// readAll returns the bytes of an object.
func (s *Store) readAll(ctx context.Context, snap *snapshot, id cas.ID) ([]byte, error) {
	o, err := s.open(ctx, snap, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}

// asDamage adds the object's ID to an error of reading its bytes.
func asDamage(id cas.ID, err error) error {
	if d, ok := errors.AsType[*cas.DamagedError](err); ok && d.ID == id {
		return err
	}
	return &cas.DamagedError{ID: id, Err: err}
}

// openAt opens an object in one pack.
func (s *Store) openAt(ctx context.Context, snap *snapshot, id cas.ID, p *pack, e entry, k *blockCache) (cas.Object,
	error) {
	data, err := k.record(p, &e)
	if err != nil {
		return cas.Object{}, err
	}
	if e.kind&large == 0 {
		if found := cas.Sum(data); found != id.Digest {
			return cas.Object{}, &cas.DamagedError{ID: id, Found: found}
		}
		info := cas.Info{ID: id, Size: int64(len(data))}
		return cas.Object{Info: info, ReadCloser: io.NopCloser(bytes.NewReader(bytes.Clone(data)))}, nil
	}
	return s.openLong(ctx, snap, id, k, data)
}

// takeCache lends the memory for reading blocks. It may still hold a block of the last reader.
func (s *Store) takeCache() *blockCache {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.spare); n > 0 {
		k := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return k
	}
	return &blockCache{c: new(scratch)}
}

func (s *Store) giveCache(k *blockCache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) < runtime.GOMAXPROCS(0) {
		s.spare = append(s.spare, k)
	} else {
		k.c.close()
	}
}

// List implements cas.Lister. It lists an object with several copies once, and yields an error for each pack that it
// can't list.
func (s *Store) List(ctx context.Context) iter.Seq2[cas.Info, error] {
	return func(yield func(cas.Info, error) bool) {
		snap, err := s.load()
		if err != nil {
			yield(cas.Info{}, err)
			return
		}
		defer snap.release()
		k := s.takeCache()
		defer s.giveCache(k)
		for i, p := range snap.packs {
			if !listPack(ctx, p, snap.packs[:i], k, yield) {
				return
			}
		}
		for _, b := range snap.bad {
			if !yield(cas.Info{}, fmt.Errorf("%s: %w", filepath.Base(b.path), b.err)) {
				return
			}
		}
	}
}

// listPack yields the objects of one pack that no pack before it has.
func listPack(ctx context.Context, pack *pack, before []*pack, k *blockCache, yield func(cas.Info, error) bool) bool {
	for placed, err := range pack.all() {
		if ctx.Err() != nil {
			yield(cas.Info{}, context.Cause(ctx))
			return false
		}
		if err != nil {
			return yield(cas.Info{}, fmt.Errorf("%s: %w", filepath.Base(pack.path), err))
		}
		kind := placed.kind &^ large
		if !isObject(kind) || inAny(before, kind, &placed.digest) {
			continue
		}
		info := cas.Info{ID: cas.ID{Kind: kind, Digest: placed.digest}, Size: int64(placed.size)}
		if placed.kind&large != 0 {
			if info.Size, err = longSize(pack, &placed.entry, k); err != nil {
				err = asDamage(info.ID, err)
			}
		}
		if !yield(info, err) {
			return false
		}
	}
	return true
}

// holds reports whether a snapshot has an object, including packs without an index.
func (s *Store) holds(snap *snapshot, id cas.ID) bool {
	if !isObject(id.Kind) || inAny(snap.packs, id.Kind, &id.Digest) {
		return isObject(id.Kind)
	}
	k := s.takeCache()
	defer s.giveCache(k)
	return inAny(snap.salvaged(k.c), id.Kind, &id.Digest)
}

// Has reports whether Get can return the object. Missing, which writers ask, ignores packs without an index.
func (s *Store) Has(id cas.ID) (bool, error) {
	snap, err := s.load()
	if err != nil {
		return false, err
	}
	defer snap.release()
	return s.holds(snap, id), nil
}

func inAny(packs []*pack, kind cas.Kind, d *cas.Digest) bool {
	return slices.ContainsFunc(packs, func(p *pack) bool {
		_, ok, err := p.lookup(kind, d)
		return ok && err == nil
	})
}

// Find returns the objects whose digest begins with the digits that cas.ParsePrefix returned.
func (s *Store) Find(ctx context.Context, digits string) ([]cas.ID, error) {
	var out []cas.ID
	for info, err := range s.List(ctx) {
		if err != nil {
			return nil, err
		}
		if info.Digest.HasPrefix(digits) {
			out = append(out, info.ID)
		}
	}
	slices.SortFunc(out, func(a, b cas.ID) int {
		if c := a.Digest.Compare(b.Digest); c != 0 {
			return c
		}
		return int(a.Kind) - int(b.Kind)
	})
	return out, nil
}

var (
	_ cas.Store   = (*Store)(nil)
	_ cas.Batcher = (*Store)(nil)
	_ cas.Lister  = (*Store)(nil)
)

// A Size is the size of a store.
type Size struct {
	Packs   int   `json:"packs"`
	Damaged int   `json:"damaged"` // packs without a readable index
	Records int64 `json:"records"` // objects, and the parts of long ones
	Bytes   int64 `json:"bytes"`   // on disk
	Raw     int64 `json:"raw"`     // of the records, uncompressed
}

// Stat returns the sums over all packs.
func (s *Store) Stat() (Size, error) {
	snap, err := s.load()
	if err != nil {
		return Size{}, err
	}
	defer snap.release()
	n := Size{Packs: len(snap.packs) + len(snap.bad), Damaged: len(snap.bad), Bytes: snap.size()}
	for _, p := range snap.packs {
		n.Records += int64(p.foot.entries)
		for i := range p.foot.blocks {
			if l, err := p.loc(uint32(i)); err == nil {
				n.Raw += int64(l.raw)
			}
		}
	}
	return n, nil
}
