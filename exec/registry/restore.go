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

	log   tlog.Key              // of the backup
	logs  map[string]*loggedRow // in the backup, by namespace; "" for the public one
	named named
}

// A Restored says what Run has made.
type Restored struct {
	Entries  int64    `json:"entries"` // of the public log
	Shown    int64    `json:"shown"`   // of these, what clients see
	Private  int      `json:"private"` // logs of private namespaces
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

// A loggedRow is what a backup has of a log.
type loggedRow struct {
	key        tlog.Key
	checkpoint *tlog.Checkpoint // nil if its files showed none
	seen       bool             // a checkpoint of a mirror or a client was given
	state      logState
	tail       tlog.Tail
	compared   map[int64][]*tlog.Checkpoint // the roots at these sizes are compared
}

// least is how many entries the backup's checkpoint has.
func (l *loggedRow) least() int64 {
	if l.checkpoint == nil {
		return 0
	}
	return l.checkpoint.Size
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
	if err := s.readLogs(r); err != nil {
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
	public := s.logs[""]
	done := &Restored{Entries: public.state.Size, Rows: s.Backup.Count, Private: len(s.logs) - 1, Wrong: []string{}}
	if err := s.copyFiles(ctx, done); err != nil {
		return done, err
	}
	if err := s.copyRows(ctx); err != nil {
		return done, err
	}
	if !s.NewLog {
		for _, space := range slices.Sorted(maps.Keys(s.logs)) {
			l, err := r.logNamed(space)
			if err == nil && s.logs[space].checkpoint != nil {
				err = r.rebuild(ctx, l, s.logs[space].checkpoint)
			}
			if err != nil {
				return done, err
			}
		}
		done.Shown = public.least()
	}
	return done, s.end(ctx, r)
}

// checkKeys refuses keys that aren't those of the backup, or for a new log are.
func (s *Restore) checkKeys(r *Registry) error {
	if s.NewLog {
		if r.o.Name == s.Backup.Name || r.Log().Public() == s.log.Public() {
			return fault.New(fault.Validation, "a new log needs another name than %q, and another key", s.Backup.Name).
				Because("clients remember what the log of that name has shown, and refuse one that contradicts it").
				Try("ryed registry restore DIR --from BACKUP --new-log --name NAME")
		}
		return nil
	}
	if r.o.Name != s.Backup.Name || r.Log() != s.log || r.KeyOf().String() != s.Backup.Key {
		return fault.New(fault.Conflict, "the keys are not those of the registry %q in the backup", s.Backup.Name).
			Because("its log's key is "+s.Backup.Log, "here it is "+r.Log().String())
	}
	return nil
}

// begun returns what the backup has of a log before its rows are read: its checkpoint, and those that were seen.
func (s *Restore) begun(text, checkpoint string) (*loggedRow, error) {
	l := &loggedRow{compared: map[int64][]*tlog.Checkpoint{}}
	var err error
	if l.key, err = tlog.ParseKey(text); err != nil || checkpoint == "" {
		return l, err
	}
	if l.checkpoint, err = tlog.Open([]byte(checkpoint), l.key); err == nil {
		l.compared[l.checkpoint.Size] = []*tlog.Checkpoint{l.checkpoint}
	}
	return l, err
}

// readLogs reads the logs of the backup, and the checkpoints that were seen.
func (s *Restore) readLogs(r *Registry) error {
	public, err := s.begun(s.Backup.Log, s.Backup.Checkpoint)
	if err == nil && public.checkpoint == nil {
		_, err = tlog.Open(nil, public.key)
	}
	if err != nil {
		return err
	}
	s.logs = map[string]*loggedRow{"": public}
	for space, kept := range s.Backup.Private {
		l, err := s.begun(kept.Log, kept.Checkpoint)
		if err != nil {
			return err
		}
		mine, err := r.private(space)
		if err != nil {
			return err
		}
		if !s.NewLog && mine.key != l.key {
			return fault.New(fault.Conflict, "the keys are not those of the private namespace %q in the backup", space)
		}
		s.logs[space] = l
	}
	for _, text := range s.Seen {
		text, space, err := seenText(text, s.Backup.Name)
		if err != nil {
			return err
		}
		l := s.logs[space]
		if l == nil {
			return fault.New(fault.Rollback, "a checkpoint of the private namespace %q was seen, which the backup "+
				"doesn't have", space).On("namespace", space)
		}
		seen, err := tlog.Open(text, l.key)
		if err != nil {
			return err
		}
		if seen.Size < l.least() && !s.NewLog {
			return olderThanBackup(seen.Size, l.least())
		}
		l.compared[seen.Size] = append(l.compared[seen.Size], seen)
		l.seen = true
	}
	return nil
}

// read reads the rows of the backup, and compares the logs in them with checkpoints.
func (s *Restore) read(ctx context.Context) error {
	found := &snapshot{backup: s.Backup, named: newNamed()}
	for _, l := range s.logs {
		if err := s.compare(l); err != nil {
			return err
		}
	}
	if err := s.eachRow(ctx, func(row rows.Row) error {
		if err := found.note(row); err != nil {
			return err
		}
		if space, ok := logOfState(row.Name); ok {
			l := s.logs[space]
			if l == nil {
				return fault.New(fault.Integrity, "the backup has a row of a log that it doesn't name: %q", row.Name)
			}
			if err := json.Unmarshal(row.Value, &l.state); err != nil {
				return damagedRow(row.Name, err)
			}
		}
		space, ok := logOfEntry(row.Name)
		if !ok {
			return nil
		}
		l := s.logs[space]
		var entry leaf
		err := json.Unmarshal(row.Value, &entry)
		if err == nil && (l == nil || !strings.HasSuffix(row.Name, fmt.Sprintf("/%012d", l.tail.Size()))) {
			err = errors.New("entries are missing before it")
		}
		if err != nil {
			return damagedRow(row.Name, err)
		}
		if _, err := l.tail.Add([]byte(entry.Entry)); err != nil {
			return err
		}
		return s.compare(l)
	}); err != nil {
		return err
	}
	for _, l := range s.logs {
		if l.tail.Size() != l.state.Size {
			return fault.New(fault.Integrity, "the backup has %d entries of the log %q, and its row says %d",
				l.tail.Size(), l.key.Name, l.state.Size)
		}
		for _, size := range slices.Sorted(maps.Keys(l.compared)) { // the log ends before them
			if err := s.lost(l, l.compared[size][0]); err != nil {
				return err
			}
		}
	}
	s.named = found.named
	return nil
}

// compare compares a log, as far as it was read, with checkpoints of that size.
func (s *Restore) compare(l *loggedRow) error {
	for _, c := range l.compared[l.tail.Size()] {
		if c.Root != l.tail.Root() {
			return s.lost(l, c)
		}
	}
	delete(l.compared, l.tail.Size())
	return nil
}

// lost returns the refusal of a backup that doesn't have what a checkpoint shows. For a new log that doesn't matter.
func (s *Restore) lost(l *loggedRow, c *tlog.Checkpoint) error {
	entries := l.tail.Size()
	if c == l.checkpoint {
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
	for _, some := range []struct {
		places map[cas.Digest]*place
		dir    string
	}{{s.named.archives, archivesDir}, {s.named.staged, archivesDir}, {s.named.documents, documentsDir}} {
		for digest, p := range some.places {
			ok := true
			for _, name := range p.names {
				one, err := copied(some.dir+hexOf(digest), name, digest, p.size)
				if err != nil {
					return err
				}
				ok = ok && one
			}
			if ok && s.named.archives[digest] == p {
				done.Archives++
				done.Bytes += p.size
			}
		}
	}
	slices.Sort(done.Wrong)
	done.Wrong = slices.Compact(done.Wrong)
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
func (s *Restore) end(ctx context.Context, r *Registry) error {
	return s.To.Rows.Update(ctx, func(in rows.Writer) error {
		in.Delete(unfinishedRow)
		for space, kept := range s.logs {
			l, err := r.logNamed(space)
			if err == nil {
				err = s.endLog(in, r, l, kept)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Restore) endLog(in rows.Writer, r *Registry, l *log, kept *loggedRow) error {
	shown := kept.least()
	if s.NewLog {
		shown = 0
	}
	if kept.state.Size > 0 {
		state := kept.state
		state.Shown = shown
		if err := put(in, l.stateRow(), state); err != nil {
			return err
		}
	}
	// The list of advisories is signed again as soon as anything is.
	list, err := get[listRow](in, l.listRow())
	if err == nil && list != nil {
		list.Shown = 0
		err = put(in, l.listRow(), list)
	}
	if err != nil || s.NewLog || kept.seen {
		return err
	}
	return put(in, l.haltRow(), halt{Since: r.now(), Made: s.Backup.Made, Least: shown})
}

// rebuild writes the files that show the first entries of a log, as a checkpoint that was signed earlier says.
func (r *Registry) rebuild(ctx context.Context, l *log, c *tlog.Checkpoint) error {
	if !l.public() {
		if err := r.describe(ctx, l); err != nil {
			return err
		}
	}
	tail, last := new(tlog.Tail), map[string]*touch{}
	write := func(files []tlog.File) error {
		for _, file := range files {
			if err := r.createSame(ctx, l.logFile(file.Name), file.Data); err != nil {
				return err
			}
		}
		return nil
	}
	if err := r.eachEntry(ctx, l, c.Size, func(n int64, text []byte) error {
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
	if err := r.o.Blobs.Replace(ctx, l.checkpointFile(), c.Text); err != nil {
		return err
	}
	if err := r.writeProofs(ctx, l, c); err != nil {
		return err
	}
	for id, at := range last {
		text, _, err := r.indexAt(ctx, l, id, at, c.Size)
		if err != nil {
			return err
		}
		if err := r.o.Blobs.Replace(ctx, l.dir+client.IndexFile(id), text); err != nil {
			return err
		}
	}
	text, _, err := r.makeList(ctx, l, c)
	if err != nil || text == nil {
		return err
	}
	return r.o.Blobs.Replace(ctx, l.dir+client.AdvisoriesFile, text)
}

// writeProofs writes the proofs of all versions that a checkpoint of a log has.
func (r *Registry) writeProofs(ctx context.Context, l *log, c *tlog.Checkpoint) error {
	var versions []*Version
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		versions = nil
		return each(in, l.versionRows(), func(_ string, v *Version) (bool, error) {
			if v.Unpublished == 0 && v.Leaf < c.Size {
				versions = append(versions, v)
			}
			return true, nil
		})
	}); err != nil {
		return err
	}
	tree := r.tree(l, c)
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
		if err := r.o.Blobs.Replace(ctx, l.dir+client.ProofFile(v.Archive), proof.Append(nil)); err != nil {
			return err
		}
	}
	return nil
}
