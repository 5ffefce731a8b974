package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

// A log is one of the registry's logs: that of the public namespaces, or that of a private one, which is a registry of
// its own to its clients.
type log struct {
	name   string // in the names of rows: public, or private/NAMESPACE
	space  string // the private namespace; "" for the public log
	title  string // the name of the registry that clients see
	dir    string // what the names of its files begin with
	rows   string // what the names of the rows of its versions begin with
	within string // what the ids of its bundles begin with

	key     tlog.Key
	signer  key.Private // signs its checkpoints
	indexes key.Private // signs its indexes and its advisories

	first string // where documents are written first, until bring copies them; "" for dir
}

// publicLog returns the log of the public namespaces.
func publicLog(o *Options) (*log, error) {
	l := &log{name: "public", title: o.Name, signer: o.LogKey, indexes: o.IndexKey}
	var err error
	l.key, err = tlog.NewKey(o.Name+"/"+client.LogDir, o.LogKey.Public())
	return l, err
}

// derivation begins the contexts in which the keys of private logs are derived.
const derivation = "rye registry private namespace v1\x00"

// privateNames returns the log of a namespace that is private, or was, without its keys.
func (r *Registry) privateNames(space string) *log {
	return &log{name: client.PrivateDir + "/" + space, space: space, title: r.o.Name + client.PrivatePath(space),
		dir: client.PrivateDir + "/" + space + "/", rows: "private/", within: space + "/"}
}

// private returns the log of a namespace that is private, or was. Its keys are derived from the key of the indexes:
// every process that serves the registry has them, and no one who lacks that. The key of the public log would not do:
// a log's key can be replaced, and private logs would then change theirs without a word.
func (r *Registry) private(space string) (*log, error) {
	l := r.privateNames(space)
	var err error
	if l.signer, err = r.public.indexes.Derive(derivation + "log\x00" + l.title); err == nil {
		l.indexes, err = r.public.indexes.Derive(derivation + "index\x00" + l.title)
	}
	if err == nil {
		l.key, err = tlog.NewKey(l.title, l.signer.Public())
	}
	return l, err
}

// logNamed returns the log of a private namespace; for "" the public log.
func (r *Registry) logNamed(space string) (*log, error) {
	if space == "" {
		return r.public, nil
	}
	return r.private(space)
}

// logOf returns the log that gets the entries of a namespace.
func (r *Registry) logOf(in rows.Reader, space string) (*log, error) {
	s, err := get[Space](in, "space/"+space)
	if err != nil || s == nil || !s.Private {
		return r.public, err
	}
	return r.private(space)
}

// logsOf returns the logs that have versions of a namespace: the one that gets its entries, and the private one of a
// namespace that was made public. That one gets no new versions, but what withdraws some.
func (r *Registry) logsOf(in rows.Reader, space string) (all []*log, err error) {
	now, err := r.logOf(in, space)
	if err != nil || !now.public() {
		return []*log{now}, err
	}
	state, err := get[logState](in, r.privateNames(space).stateRow())
	if err != nil || state == nil {
		return []*log{now}, err
	}
	before, err := r.private(space)
	return []*log{now, before}, err
}

// eachLog calls do for the public log, and then for those of private namespaces. It returns all errors.
func (r *Registry) eachLog(ctx context.Context, do func(context.Context, *log) error) error {
	var spaces []string
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		spaces = nil
		return each(in, "log/"+client.PrivateDir+"/", func(space string, _ *logState) (bool, error) {
			spaces = append(spaces, space)
			return true, nil
		})
	}); err != nil {
		return err
	}
	failed := do(ctx, r.public)
	for _, space := range spaces {
		l, err := r.private(space)
		if err == nil {
			err = do(ctx, l)
		}
		if err != nil && failed != nil {
			err = errors.Join(failed, err)
		}
		if err != nil {
			failed = err
		}
	}
	return failed
}

func (l *log) public() bool { return l.space == "" }

// The names of a log's rows.

func (l *log) stateRow() string { return "log/" + l.name }
func (l *log) haltRow() string  { return "halt/" + l.name }
func (l *log) listRow() string  { return "advisories/" + l.name }

func (l *log) entryRow(n int64) string          { return fmt.Sprintf("entry/%s/%012d", l.name, n) }
func (l *log) entryRows() string                { return "entry/" + l.name + "/" }
func (l *log) touchedRow(id string) string      { return l.rows + "touched/" + id }
func (l *log) archiveRow(hex string) string     { return l.rows + "archive/" + hex }
func (l *log) versionRow(version string) string { return l.rows + "version/" + version }
func (l *log) versionRows() string              { return l.versionRow(l.within) }
func (l *log) advisoryRow(id string) string     { return l.rows + "advisory/" + l.within + id }
func (l *log) advisoryRows() string             { return l.advisoryRow("") }

// logOfEntry returns the private namespace of the log that a row of an entry belongs to, "" for the public log; false
// for another row.
func logOfEntry(row string) (space string, ok bool) {
	name, ok := strings.CutPrefix(row, "entry/")
	i := strings.LastIndexByte(name, '/')
	if !ok || i < 0 {
		return "", false
	}
	space, private := strings.CutPrefix(name[:i], client.PrivateDir+"/")
	if !private {
		return "", name[:i] == "public"
	}
	return space, portable.CheckID(space) == nil
}

// logOfState is logOfEntry for the row of a log's state.
func logOfState(row string) (space string, ok bool) {
	name, ok := strings.CutPrefix(row, "log/")
	space, private := strings.CutPrefix(name, client.PrivateDir+"/")
	if ok && !private {
		return "", name == "public"
	}
	return space, ok && portable.CheckID(space) == nil
}

func (l *log) checkpointFile() string { return l.logFile(tlog.CheckpointFile) }

// logFile returns the name of a file of the log itself.
func (l *log) logFile(name string) string { return l.dir + client.LogDir + "/" + name }

// newDocument returns the name under which a document is written before the entry that names it.
func (l *log) newDocument(document cas.Digest) string {
	return cmp.Or(l.first, l.dir) + client.DocumentFile(document)
}

func (r *Registry) tree(l *log, c *tlog.Checkpoint) tlog.Tree {
	return tlog.NewTree(c, LogFiles{r.o.Blobs, l.dir})
}

// witness returns what asks the witnesses of a log. A private log has none: they would learn that it is there.
func (r *Registry) witness(l *log) Witness {
	if !l.public() {
		return nil
	}
	return r.o.Witness
}

// change updates rows of a namespace, and then the files of its logs that show them.
func (r *Registry) change(ctx context.Context, space string, change func(rows.Writer) error) error {
	if err := r.o.Rows.Update(ctx, change); err != nil {
		return err
	}
	return r.flushOf(ctx, space)
}

// flushOf writes the files of the logs that have versions of a namespace.
func (r *Registry) flushOf(ctx context.Context, space string) error {
	var logs []*log
	if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		logs, err = r.logsOf(in, space)
		return err
	}); err != nil {
		return err
	}
	for _, l := range logs {
		if err := r.flush(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// bring copies the archives of versions that a private log had before the public one, and the documents of what was
// published anew with them.
func (r *Registry) bring(ctx context.Context, l *log, entries [][]byte) error {
	if !l.public() {
		return nil
	}
	var releases []tlog.Release
	for _, text := range entries {
		entry, err := tlog.ParseEntry(text)
		if err != nil {
			return err
		}
		releases = append(releases, entry.All()...)
		if !entry.Document.IsZero() {
			if err := r.bringFile(ctx, SpaceOf(entry.Bundle), client.DocumentFile(entry.Document), entry.Document,
				-1); err != nil {
				return err
			}
		}
	}
	if len(releases) == 0 {
		return nil
	}
	var wanted []*Version
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		wanted = nil
		for _, release := range releases {
			old, err := get[Version](in, r.privateNames(SpaceOf(release.Bundle)).versionRow(release.Key()))
			if err != nil {
				return err
			}
			if old != nil && old.Archive == release.Archive {
				wanted = append(wanted, old)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, v := range wanted {
		if err := r.bringFile(ctx, SpaceOf(v.Bundle), client.ArchiveFile(v.Archive), v.Archive, v.Size); err != nil {
			return err
		}
	}
	return nil
}

// bringFile copies a file of a private namespace to where everyone reads it, unless it is there.
func (r *Registry) bringFile(ctx context.Context, space, name string, digest cas.Digest, size int64) error {
	if there, err := r.o.Blobs.Open(ctx, name); err == nil {
		return there.Close()
	}
	err := copyFile(ctx, r.o.Blobs, r.privateNames(space).dir+name, r.o.Blobs, name, digest, size)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an archive that was unpublished meanwhile
	}
	return err
}
