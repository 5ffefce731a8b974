package registry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Backup is the file backup.json of a backup: what the backup has. It is written last, at once, so that a backup is
// always that of one state.
//
// Beside it stand rows/HEX, all rows of one state, and archives/HEX and documents/HEX, each named after the digest of
// its bytes. The file of rows has a line for each row, sorted by name: the name, a space, and the value.
type Backup struct {
	Format     string            `json:"format"`
	Name       string            `json:"name"` // of the registry
	Log        string            `json:"log"`  // key of the log
	Key        string            `json:"key"`  // key that signs indexes
	Made       time.Time         `json:"made"`
	Checkpoint string            `json:"checkpoint"` // that the files showed before the rows were read
	Rows       cas.Digest        `json:"rows"`
	Count      int64             `json:"count"` // of rows
	Archives   int64             `json:"archives"`
	Bytes      int64             `json:"bytes"` // of archives
	Files      map[string]string `json:"files"` // of the data directory, private keys among them
	// Private are the logs of private namespaces, whose private keys are derived from those of the public log.
	Private map[string]BackupLog `json:"private,omitempty"`
}

// A BackupLog is the log of a private namespace in a backup.
type BackupLog struct {
	Log        string `json:"log"`                  // its key
	Checkpoint string `json:"checkpoint,omitempty"` // "" if its files showed none yet
}

const (
	backupFormat = "rye registry backup/1"
	backupFile   = "backup.json"
	rowsDir      = "rows/"
	archivesDir  = "archives/"
	documentsDir = "documents/"
)

// A BackedUp says what Backup has made.
type BackedUp struct {
	Entries  int64    `json:"entries"`  // of the log
	Rows     int64    `json:"rows"`     // in the backup
	Archives int64    `json:"archives"` // in the backup
	Bytes    int64    `json:"bytes"`    // of these archives
	Copied   int      `json:"copied"`   // archives and documents that an earlier backup there didn't have
	Removed  int      `json:"removed"`  // those of an earlier backup that no row names any more
	Wrong    []string `json:"wrong"`    // what could not be copied, one line each
}

// skipped are rows that say something about running processes only, or about this copy of the registry. What counts
// once or for a short time is among them: a restore must not make a link or a session count again that has ended.
var skipped = []string{"lease/", "halt/", "restore/", "session/", "link/", "device/", "code/", "used/", "tally/"}

// A snapshot is one state of the rows, in a file.
type snapshot struct {
	file    *os.File
	size    int64
	backup  *Backup
	entries int64
	named
}

// named are the files that rows name, by the digests of their bytes.
type named struct {
	archives  map[cas.Digest]*place
	staged    map[cas.Digest]*place // archives of versions that wait for approvals
	documents map[cas.Digest]*place
}

// A place is where files with the same bytes are. They are in two logs' files after a private namespace was made
// public.
type place struct {
	names []string
	size  int64 // -1: nothing but the file says it
}

func newNamed() named {
	return named{map[cas.Digest]*place{}, map[cas.Digest]*place{}, map[cas.Digest]*place{}}
}

func addPlace(all map[cas.Digest]*place, digest cas.Digest, size int64, name string) {
	if all[digest] == nil {
		all[digest] = &place{size: size}
	}
	if !slices.Contains(all[digest].names, name) {
		all[digest].names = append(all[digest].names, name)
	}
}

// backupTries is how often Backup begins with newer rows because an archive was unpublished meanwhile.
const backupTries = 3

// Backup brings a copy of what can't be made again up to date: the rows, the archives that they name, and the
// documents of the log. It may run while the registry is served: the rows are those of one state, an archive never
// changes, and the checkpoint is read before the rows, which therefore have all its entries. Each archive is compared
// with its digest while it is copied. files are kept with it, by their names in the data directory.
func (r *Registry) Backup(ctx context.Context, to blobs.Store, files map[string]string) (*BackedUp, error) {
	// What was published is in the checkpoint, if it can be shown now; if not, the rows have it.
	if err := r.Flush(ctx); err != nil {
		r.o.Warn(err)
	}
	done := &BackedUp{}
	for try := 1; ; try++ {
		s, err := r.snapshot(ctx, files)
		if err != nil {
			return nil, err
		}
		done.Wrong = []string{}
		gone, err := r.copyNamed(ctx, to, s, done)
		if err == nil && gone && try < backupTries {
			s.file.Close()
			continue
		}
		if err == nil {
			err = s.finish(ctx, to, done)
		}
		return done, errors.Join(err, s.file.Close())
	}
}

// snapshot writes the rows of one state to a temporary file without a name.
func (r *Registry) snapshot(ctx context.Context, files map[string]string) (_ *snapshot, err error) {
	s := &snapshot{backup: &Backup{Format: backupFormat, Name: r.o.Name, Log: r.public.key.String(),
		Key: r.KeyOf().String(), Made: r.now(), Files: files}}
	if err := r.eachLog(ctx, func(ctx context.Context, l *log) error {
		checkpoint, err := r.shownCheckpoint(ctx, l)
		switch {
		case err == nil && l.public():
			s.backup.Checkpoint = string(checkpoint.Text)
			return nil
		case err != nil && (l.public() || !errors.Is(err, fs.ErrNotExist)):
			return err
		}
		if s.backup.Private == nil {
			s.backup.Private = map[string]BackupLog{}
		}
		kept := BackupLog{Log: l.key.String()}
		if err == nil {
			kept.Checkpoint = string(checkpoint.Text)
		}
		s.backup.Private[l.space] = kept
		return nil
	}); err != nil {
		return nil, err
	}
	if s.file, err = os.CreateTemp(r.o.TempDir, "backup-"); err != nil {
		return nil, err
	}
	os.Remove(s.file.Name()) // where the system allows it
	if err = r.o.Rows.View(ctx, s.write); err == nil {
		s.size, err = s.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// write writes all rows, and notes what they name.
func (s *snapshot) write(in rows.Reader) error {
	s.named = newNamed()
	hasher := cas.NewHasher()
	w := bufio.NewWriterSize(io.MultiWriter(s.file, hasher), 64<<10)
	for row, err := range in.Scan("", "") {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(skipped, func(prefix string) bool { return strings.HasPrefix(row.Name, prefix) }) {
			continue
		}
		if err := s.note(row); err != nil {
			return err
		}
		s.backup.Count++
		if _, err := w.Write(appendRow(nil, row)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s.backup.Rows = hasher.Digest()
	for _, archive := range s.archives {
		s.backup.Archives++
		s.backup.Bytes += archive.size
	}
	return nil
}

// note notes the archive or the document that a row names.
func (s *snapshot) note(row rows.Row) error {
	dir := ""
	kind, rest, _ := strings.Cut(row.Name, "/")
	if kind == client.PrivateDir {
		kind, rest, _ = strings.Cut(rest, "/")
		dir = client.PrivateDir + "/" + SpaceOf(rest) + "/"
	}
	switch kind {
	case "version":
		var v Version
		if err := json.Unmarshal(row.Value, &v); err != nil {
			return damagedRow(row.Name, err)
		}
		if v.Unpublished == 0 {
			addPlace(s.archives, v.Archive, v.Size, dir+client.ArchiveFile(v.Archive))
		}
	case "staged":
		var waiting Staged
		if err := json.Unmarshal(row.Value, &waiting); err != nil {
			return damagedRow(row.Name, err)
		}
		if waiting.waits(s.backup.Made) {
			for _, v := range waiting.Versions {
				addPlace(s.staged, v.Archive, v.Size, stagedFile(v.Archive))
			}
		}
	case "entry":
		var l leaf
		err := json.Unmarshal(row.Value, &l)
		if err != nil {
			return damagedRow(row.Name, err)
		}
		entry, err := tlog.ParseEntry([]byte(l.Entry))
		if err != nil {
			return damagedRow(row.Name, err)
		}
		s.entries++
		if space, ok := logOfEntry(row.Name); !ok {
			return damagedRow(row.Name, errors.New("it is of no log"))
		} else if space != "" {
			dir = client.PrivateDir + "/" + space + "/"
		}
		if !entry.Document.IsZero() {
			addPlace(s.documents, entry.Document, -1, dir+client.DocumentFile(entry.Document))
		}
	}
	return nil
}

// appendRow appends the line of a row.
func appendRow(dst []byte, row rows.Row) []byte {
	dst = append(append(dst, row.Name...), ' ')
	return append(append(dst, row.Value...), '\n')
}

// parseRow reads the line of a row, without its end. It accepts only what appendRow writes.
func parseRow(line []byte) (rows.Row, error) {
	name, value, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return rows.Row{}, errors.New("expected a name, a space and a value")
	}
	if err := rows.CheckName(string(name)); err != nil {
		return rows.Row{}, err
	}
	compact, err := rows.Compact(value)
	if err == nil && !bytes.Equal(compact, value) {
		err = errors.New("the value is not in its compact form")
	}
	return rows.Row{Name: string(name), Value: compact}, err
}

// copyNamed copies the archives and documents that the rows name. gone reports whether an archive that the rows name
// isn't there, because it was unpublished after they were read.
func (r *Registry) copyNamed(ctx context.Context, to blobs.Store, s *snapshot, done *BackedUp) (gone bool, err error) {
	there := map[string]int64{}
	for _, prefix := range []string{archivesDir, documentsDir} {
		for info, err := range to.List(ctx, prefix) {
			if err != nil {
				return false, err
			}
			there[info.Name] = info.Size
		}
	}
	one := func(p *place, name string, digest cas.Digest, what string) error {
		if have, ok := there[name]; ok && (have == p.size || p.size < 0) {
			return nil
		}
		err := fs.ErrNotExist
		for _, from := range p.names {
			if errors.Is(err, fs.ErrNotExist) {
				err = copyFile(ctx, r.o.Blobs, from, to, name, digest, p.size)
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone = true
			done.Wrong = append(done.Wrong, fmt.Sprintf("the %s %s is missing", what, hexOf(digest)))
		case fault.CodeOf(err) == fault.Integrity:
			done.Wrong = append(done.Wrong, fmt.Sprintf("the %s %s is damaged", what, hexOf(digest)))
		case err != nil:
			return err
		default:
			done.Copied++
			there[name] = p.size // the same archive may be staged, too
		}
		return nil
	}
	for _, some := range []struct {
		places    map[cas.Digest]*place
		dir, what string
	}{{s.archives, archivesDir, "archive"}, {s.staged, archivesDir, "staged archive"},
		{s.documents, documentsDir, "document"}} {
		for digest, p := range some.places {
			if err := one(p, some.dir+hexOf(digest), digest, some.what); err != nil {
				return false, err
			}
		}
	}
	slices.Sort(done.Wrong)
	return gone, nil
}

// copyFile copies a file whose bytes must have a digest. size is negative if nothing but the file says it.
func copyFile(ctx context.Context, in blobs.Store, from string, to blobs.Store, name string, digest cas.Digest,
	size int64) error {
	file, err := in.Open(ctx, from)
	if err != nil {
		return err
	}
	if size < 0 {
		size = file.Size
	}
	whole := cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: digest}, Size: size}, file)
	defer whole.Close()
	err = to.Create(ctx, name, whole, size)
	if fault.CodeOf(err) != fault.Conflict {
		return err
	}
	// What is there may be damaged, or it is of another process that does the same.
	there, bad := to.Open(ctx, name)
	if bad != nil {
		return bad
	}
	defer there.Close()
	hasher := cas.NewHasher()
	if _, bad := io.Copy(hasher, cas.Until(ctx, there)); bad != nil {
		return bad
	}
	if hasher.Digest() != digest {
		return fault.New(fault.Files, "the file %q is there already, and damaged: remove it", name).From(err).
			On("path", name)
	}
	return nil
}

// finish writes the rows and what names them, and removes what an earlier backup had and this one doesn't name.
func (s *snapshot) finish(ctx context.Context, to blobs.Store, done *BackedUp) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	name := rowsDir + hexOf(s.backup.Rows)
	whole := cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: s.backup.Rows}, Size: s.size},
		io.NopCloser(s.file))
	if err := to.Create(ctx, name, whole, s.size); err != nil && fault.CodeOf(err) != fault.Conflict {
		return err
	}
	text, err := json.MarshalIndent(s.backup, "", "  ")
	if err != nil {
		return err
	}
	if err := to.Replace(ctx, backupFile, append(text, '\n')); err != nil {
		return err
	}
	keep := map[string]bool{name: true}
	for _, some := range []map[cas.Digest]*place{s.archives, s.staged} {
		for digest := range some {
			keep[archivesDir+hexOf(digest)] = true
		}
	}
	for digest := range s.documents {
		keep[documentsDir+hexOf(digest)] = true
	}
	for _, prefix := range []string{rowsDir, archivesDir, documentsDir} {
		for info, err := range to.List(ctx, prefix) {
			if err != nil {
				return err
			}
			if keep[info.Name] {
				continue
			}
			if err := to.Remove(ctx, info.Name); err != nil {
				return err
			}
			done.Removed++
		}
	}
	done.Entries, done.Rows, done.Archives, done.Bytes = s.entries, s.backup.Count, s.backup.Archives, s.backup.Bytes
	return nil
}

// ReadBackup reads what a backup has.
func ReadBackup(ctx context.Context, from blobs.Store) (*Backup, error) {
	file, err := from.Open(ctx, backupFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "no backup of a registry is there: %s is missing", backupFile).From(err).
			Try("ryed registry backup DIR --data DATA")
	}
	if err != nil {
		return nil, err
	}
	text, err := readAll(file, blobs.MaxReplace)
	if err != nil {
		return nil, err
	}
	return parseBackup(text)
}

// parseBackup reads backup.json. It accepts only what Backup writes.
func parseBackup(text []byte) (*Backup, error) {
	b := new(Backup)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(b)
	if err == nil {
		var again []byte
		if again, err = json.MarshalIndent(b, "", "  "); err == nil && !bytes.Equal(append(again, '\n'), text) {
			err = errors.New("it is not as a backup writes it")
		}
	}
	if err == nil && b.Format != backupFormat {
		return nil, fault.New(fault.VersionMismatch, "%s: unknown format %q, expected %q", backupFile,
			fault.Clip(b.Format, 100), backupFormat).Try("ryed version")
	}
	if err == nil {
		err = client.CheckName(b.Name)
	}
	for space := range b.Private {
		if err == nil {
			err = portable.CheckID(space)
		}
	}
	if err != nil {
		return nil, fault.New(fault.Parsing, "%s: %v", backupFile, err).From(err)
	}
	return b, nil
}
