package registry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Restore is what Run makes of a backup.
type Restore struct {
	From   blobs.Store
	Backup *Backup
	To     Options  // Rows and Blobs are empty, or those of a restore of this backup that was interrupted
	Seen   [][]byte // checkpoints of mirrors and clients, or proofs that have them
	NewLog bool     // begin a new log: To has another name and another key for it

	// Begun is called when the rows say that a restore is under way, before anything else is written: from then on no
	// registry can be opened there.
	Begun func() error

	log     tlog.Key // of the backup
	summary summary
}

// A Restored says what Run has made.
type Restored struct {
	Entries  int64    `json:"entries"` // of the log
	Shown    int64    `json:"shown"`   // of these, what clients see
	Rows     int64    `json:"rows"`
	Archives int64    `json:"archives"`
	Bytes    int64    `json:"bytes"` // of archives
	Wrong    []string `json:"wrong"` // what the backup doesn't have, one line each
}

// restoring is the row of a restore that is under way.
type restoring struct {
	Rows cas.Digest `json:"rows"` // of the backup
	Name string     `json:"name"` // of the registry
}

// A summary is what the rows of a backup name.
type summary struct {
	checkpoint *tlog.Checkpoint // of the backup
	state      logState
	archives   map[cas.Digest]int64
	staged     map[cas.Digest]int64
	documents  map[cas.Digest]bool
}

// batch is how many rows one transaction of a restore writes.
const batch = 500

// Run makes a registry from a backup, in an empty place. It first reads the rows whole, and writes nothing if they
// aren't those of the backup's checkpoint, or if a checkpoint that was seen shows that newer entries are lost. Tiles,
// checkpoint, proofs and indexes are made again from the rows. It signs no checkpoint. After an interruption it is
// made again.
func (s *Restore) Run(ctx context.Context) (*Restored, error) {
	r, err := newRegistry(s.To)
	if err != nil {
		return nil, err
	}
	if s.log, err = tlog.ParseKey(s.Backup.Log); err != nil {
		return nil, err
	}
	if err := s.checkKeys(r); err != nil {
		return nil, err
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if err := s.Begun(); err != nil {
		return nil, err
	}
	done := &Restored{Entries: s.summary.state.Size, Rows: s.Backup.Count, Wrong: []string{}}
	if err := s.copyFiles(ctx, done); err != nil {
		return done, err
	}
	if err := s.copyRows(ctx); err != nil {
		return done, err
	}
	if !s.NewLog {
		if err := r.rebuild(ctx, s.summary.checkpoint); err != nil {
			return done, err
		}
		done.Shown = s.summary.checkpoint.Size
	}
	return done, s.end(ctx, r, done.Shown)
}

// checkKeys refuses keys that aren't those of the backup, or for a new log are.
func (s *Restore) checkKeys(r *Registry) error {
	if s.NewLog {
		if r.o.Name == s.Backup.Name || r.log.Public() == s.log.Public() {
			return fault.New(fault.Validation, "a new log needs another name than %q, and another key", s.Backup.Name).
				Because("clients remember what the log of that name has shown, and refuse one that contradicts it").
				Try("ryed registry restore DIR --from BACKUP --new-log --name NAME")
		}
		return nil
	}
	if r.o.Name != s.Backup.Name || r.log != s.log || r.o.IndexKey.Public().String() != s.Backup.Key {
		return fault.New(fault.Conflict, "the keys are not those of the registry %q in the backup", s.Backup.Name).
			Because("its log's key is "+s.Backup.Log, "here it is "+r.log.String())
	}
	return nil
}

// read reads the rows of the backup, and compares the log in them with checkpoints.
func (s *Restore) read(ctx context.Context) error {
	var err error
	if s.summary.checkpoint, err = tlog.Open([]byte(s.Backup.Checkpoint), s.log); err != nil {
		return err
	}
	// The roots at these sizes are compared.
	compared := map[int64][]*tlog.Checkpoint{s.summary.checkpoint.Size: {s.summary.checkpoint}}
	for _, text := range s.Seen {
		seen, err := seenCheckpoint(text, s.log)
		if err != nil {
			return err
		}
		if least := s.summary.checkpoint.Size; seen.Size < least && !s.NewLog {
			return olderThanBackup(seen.Size, least)
		}
		compared[seen.Size] = append(compared[seen.Size], seen)
	}
	found := &snapshot{backup: s.Backup, archives: map[cas.Digest]int64{}, staged: map[cas.Digest]int64{},
		documents: map[cas.Digest]bool{}}
	tail := new(tlog.Tail)
	compare := func() error {
		for _, c := range compared[tail.Size()] {
			if c.Root != tail.Root() {
				return s.lost(c, tail.Size())
			}
		}
		delete(compared, tail.Size())
		return nil
	}
	if err := compare(); err != nil {
		return err
	}
	if err := s.eachRow(ctx, func(row rows.Row) error {
		if err := found.note(row); err != nil {
			return err
		}
		if row.Name == "log/"+publicLog {
			if err := json.Unmarshal(row.Value, &s.summary.state); err != nil {
				return damagedRow(row.Name, err)
			}
		}
		if !strings.HasPrefix(row.Name, "entry/"+publicLog+"/") {
			return nil
		}
		var l leaf
		if err := json.Unmarshal(row.Value, &l); err != nil || row.Name != entryRow(publicLog, tail.Size()) {
			return damagedRow(row.Name, errors.Join(err, errors.New("entries are missing before it")))
		}
		if _, err := tail.Add([]byte(l.Entry)); err != nil {
			return err
		}
		return compare()
	}); err != nil {
		return err
	}
	if tail.Size() != s.summary.state.Size {
		return fault.New(fault.Integrity, "the backup has %d entries of the log, and its row says %d", tail.Size(),
			s.summary.state.Size)
	}
	for _, size := range slices.Sorted(maps.Keys(compared)) { // the log ends before them
		if err := s.lost(compared[size][0], tail.Size()); err != nil {
			return err
		}
	}
	s.summary.archives, s.summary.staged, s.summary.documents = found.archives, found.staged, found.documents
	return nil
}

// lost returns the refusal of a backup that doesn't have what a checkpoint shows. For a new log that doesn't matter.
func (s *Restore) lost(c *tlog.Checkpoint, entries int64) error {
	if c == s.summary.checkpoint {
		return fault.New(fault.Integrity, "the rows of the backup are not those of its checkpoint with %d entries",
			c.Size)
	}
	if s.NewLog {
		return nil
	}
	e := fault.New(fault.Rollback, "the log has signed a checkpoint with %d entries that the backup doesn't continue",
		c.Size).On("seen", c.Size)
	if c.Size > entries {
		e.Because(fmt.Sprintf("the backup has %d entries: what was published after it is lost", entries))
	}
	return e.Because("a log that contradicts what it has shown is refused by every client that saw it").
		Try("ryed registry restore DIR --from BACKUP --new-log --name NAME")
}

// eachRow calls visit for the rows of the backup. When it returns nil, all were those of the backup.
func (s *Restore) eachRow(ctx context.Context, visit func(rows.Row) error) error {
	name := rowsDir + hexOf(s.Backup.Rows)
	file, err := s.From.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Integrity, "the backup is not complete: %q is missing", name).From(err)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	hasher := cas.NewHasher()
	in := bufio.NewScanner(io.TeeReader(cas.Until(ctx, file), hasher))
	in.Buffer(make([]byte, 64<<10), rows.MaxName+rows.MaxValue+2)
	damaged := func(err error) error {
		return fault.New(fault.Integrity, "the backup is damaged: %q", name).From(err).On("path", name)
	}
	var last string
	count := int64(0)
	for in.Scan() {
		row, err := parseRow(in.Bytes())
		if err == nil && row.Name <= last {
			err = errors.New("the rows are not sorted")
		}
		if err != nil {
			return damaged(err)
		}
		last = row.Name
		count++
		if err := visit(row); err != nil {
			return err
		}
	}
	if in.Err() != nil {
		return damaged(in.Err())
	}
	if hasher.Digest() != s.Backup.Rows || count != s.Backup.Count {
		return damaged(errors.New("it has other bytes than the backup says"))
	}
	return nil
}

// begin notes in the rows that a restore is under way. It refuses rows and files of something else.
func (s *Restore) begin(ctx context.Context) error {
	mine := s.mark()
	notEmpty := fault.New(fault.Conflict, "the registry is not empty: a backup is restored into an empty place")
	return s.To.Rows.Update(ctx, func(in rows.Writer) error {
		known, err := get[restoring](in, unfinishedRow)
		if err != nil {
			return err
		}
		if known != nil {
			if *known != mine {
				return notEmpty.Because("the restore of another backup was begun there")
			}
			return nil
		}
		used, err := hasAny(in.Scan("", ""))
		if err == nil && !used {
			used, err = hasAny(s.To.Blobs.List(ctx, ""))
		}
		if err != nil {
			return err
		}
		if used {
			return notEmpty
		}
		return put(in, unfinishedRow, mine)
	})
}

// mark returns the row that this restore, made again, finds.
func (s *Restore) mark() restoring { return restoring{s.Backup.Rows, s.To.Name} }

// hasAny reports whether a sequence has anything.
func hasAny[T any](all iter.Seq2[T, error]) (bool, error) {
	next, stop := iter.Pull2(all)
	defer stop()
	_, err, found := next()
	return found, err
}

// copyFiles copies archives and documents.
func (s *Restore) copyFiles(ctx context.Context, done *Restored) error {
	copied := func(name, to string, digest cas.Digest, size int64) (bool, error) {
		err := copyFile(ctx, s.From, name, s.To.Blobs, to, digest, size)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done.Wrong = append(done.Wrong, name+" is missing in the backup")
		case fault.CodeOf(err) == fault.Integrity:
			done.Wrong = append(done.Wrong, name+" is damaged in the backup")
		default:
			return err == nil, err
		}
		return false, nil
	}
	for digest, size := range s.summary.archives {
		ok, err := copied(archivesDir+hexOf(digest), client.ArchiveFile(digest), digest, size)
		if err != nil {
			return err
		}
		if ok {
			done.Archives++
			done.Bytes += size
		}
	}
	for digest, size := range s.summary.staged {
		if _, err := copied(archivesDir+hexOf(digest), stagedFile(digest), digest, size); err != nil {
			return err
		}
	}
	for digest := range s.summary.documents {
		if _, err := copied(documentsDir+hexOf(digest), client.DocumentFile(digest), digest, -1); err != nil {
			return err
		}
	}
	slices.Sort(done.Wrong)
	return nil
}

// copyRows writes the rows.
func (s *Restore) copyRows(ctx context.Context) error {
	var some []rows.Row
	write := func() error {
		err := s.To.Rows.Update(ctx, func(in rows.Writer) error {
			// Of two restores at once, one may have ended, and the registry may be in use.
			if known, err := get[restoring](in, unfinishedRow); err != nil || known == nil || *known != s.mark() {
				return errors.Join(err, fault.New(fault.Conflict, "another process has restored the registry"))
			}
			for _, row := range some {
				in.Put(row.Name, row.Value)
			}
			return nil
		})
		some = some[:0]
		return err
	}
	if err := s.eachRow(ctx, func(row rows.Row) error {
		if some = append(some, row); len(some) < batch {
			return nil
		}
		return write()
	}); err != nil {
		return err
	}
	return write()
}

// end notes how many entries clients see, and lets registries be opened. Without a checkpoint that was seen, the log
// of the backup signs nothing yet.
func (s *Restore) end(ctx context.Context, r *Registry, shown int64) error {
	return s.To.Rows.Update(ctx, func(in rows.Writer) error {
		in.Delete(unfinishedRow)
		if s.summary.state.Size > 0 {
			state := s.summary.state
			state.Shown = shown
			if err := put(in, "log/"+publicLog, state); err != nil {
				return err
			}
		}
		// The list of advisories is signed again as soon as anything is.
		list, err := get[listRow](in, listName)
		if err == nil && list != nil {
			list.Shown = 0
			err = put(in, listName, list)
		}
		if err != nil || s.NewLog || len(s.Seen) > 0 {
			return err
		}
		return put(in, haltRow, halt{Since: r.now(), Made: s.Backup.Made, Least: shown})
	})
}

// rebuild writes the files that show the first entries of the log, as a checkpoint that was signed earlier says.
func (r *Registry) rebuild(ctx context.Context, c *tlog.Checkpoint) error {
	tail, last := new(tlog.Tail), map[string]*touch{}
	write := func(files []tlog.File) error {
		for _, file := range files {
			if err := r.createSame(ctx, client.LogDir+"/"+file.Name, file.Data); err != nil {
				return err
			}
		}
		return nil
	}
	if err := r.eachEntry(ctx, c.Size, func(n int64, text []byte) error {
		entry, err := tlog.ParseEntry(text)
		if err != nil {
			return err
		}
		for _, id := range touchedBy(entry) {
			last[id] = &touch{n, entry.Time}
		}
		full, err := tail.Add(text)
		if err != nil {
			return err
		}
		return write(full)
	}); err != nil {
		return err
	}
	if err := write(tail.Partial()); err != nil {
		return err
	}
	if err := r.o.Blobs.Replace(ctx, client.LogDir+"/"+tlog.CheckpointFile, c.Text); err != nil {
		return err
	}
	if err := r.writeProofs(ctx, c); err != nil {
		return err
	}
	for id, at := range last {
		text, _, err := r.indexAt(ctx, id, at, c.Size)
		if err != nil {
			return err
		}
		if err := r.o.Blobs.Replace(ctx, client.IndexFile(id), text); err != nil {
			return err
		}
	}
	text, _, err := r.makeList(ctx, c)
	if err != nil || text == nil {
		return err
	}
	return r.o.Blobs.Replace(ctx, client.AdvisoriesFile, text)
}

// writeProofs writes the proofs of all versions that a checkpoint has.
func (r *Registry) writeProofs(ctx context.Context, c *tlog.Checkpoint) error {
	var versions []*Version
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		versions = nil
		return each(in, "version/", func(_ string, v *Version) (bool, error) {
			if v.Unpublished == 0 && v.Leaf < c.Size {
				versions = append(versions, v)
			}
			return true, nil
		})
	}); err != nil {
		return err
	}
	tree := tlog.NewTree(c, LogFiles{r.o.Blobs})
	for _, v := range versions {
		text, err := tree.Entry(ctx, v.Leaf)
		if err != nil {
			return err
		}
		entry, err := tlog.ParseEntry(text)
		if err == nil && !publishes(entry, v) {
			err = fault.New(fault.Integrity, "entry %d of the log does not publish %s", v.Leaf, v.Key())
		}
		if err != nil {
			return err
		}
		proof, err := tree.Prove(ctx, v.Leaf, text)
		if err != nil {
			return err
		}
		if err := r.o.Blobs.Replace(ctx, client.ProofFile(v.Archive), proof.Append(nil)); err != nil {
			return err
		}
	}
	return nil
}
