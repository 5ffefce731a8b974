package registry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Fetcher gets the content of an https address, and its announced size (-1: unknown), as *web.Client does. More
// than limit bytes are an error, and a missing file is an fs.ErrNotExist.
type Fetcher interface {
	Get(ctx context.Context, address string, limit int64) (io.ReadCloser, int64, error)
	// GetIf returns no reader if the file still has this ETag, and else the ETag that it has now.
	GetIf(ctx context.Context, address string, limit int64, etag string) (io.ReadCloser, string, error)
}

// A Keeper keeps small files of registries by their addresses, each with its ETag, which may be "". Nothing vouches
// for what it returns: a kept file is verified like one that has just arrived.
type Keeper interface {
	Kept(ctx context.Context, address string) (text []byte, etag string, err error) // fs.ErrNotExist without one
	Keep(ctx context.Context, address string, text []byte, etag string) error
}

// A Client reads one registry. It is safe for concurrent use.
type Client struct {
	At       project.Registry
	Fetch    Fetcher
	Journal  *rollback.Journal // remembers the log's key and last checkpoint, and the issues of indexes
	Policies []*tlog.Policy    // of witnesses; each must be satisfied
	Keeper   Keeper            // of indexes and the last checkpoint; nil: none is kept
	Now      func() time.Time
}

// name returns the registry's name: its log's origin, without /log behind the host. That of a private namespace is
// called as its log.
func (c *Client) name() string {
	if host, rest, ok := strings.Cut(c.At.Log.Name, "/"); ok && rest == LogDir {
		return host
	}
	return c.At.Log.Name
}

// Read returns a small file of the registry.
func (c *Client) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	body, _, err := c.Fetch.Get(ctx, c.At.URL+"/"+name, limit)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// A reading is a small file of a registry that was read.
type reading struct {
	text []byte
	etag string
	kept bool // the registry says that the kept file is its own
}

// readIf reads a small file, by one conditional request if the file is kept. parse verifies what is kept and what
// arrives alike; a kept file that it refuses is asked for without a condition.
func (c *Client) readIf(ctx context.Context, name string, limit int64, parse func(text []byte) error) (*reading,
	error) {
	have := new(reading)
	if c.Keeper != nil {
		text, etag, err := c.Keeper.Kept(ctx, c.At.URL+"/"+name)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil && etag != "" && parse(text) == nil { // whatever is wrong with it, the registry has it still
			have = &reading{text, etag, true}
		}
	}
	body, etag, err := c.Fetch.GetIf(ctx, c.At.URL+"/"+name, limit, have.etag)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return have, nil
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err == nil {
		err = parse(text)
	}
	return &reading{text: text, etag: etag}, err
}

// keep keeps a small file that was believed.
func (c *Client) keep(ctx context.Context, name string, r *reading) error {
	if c.Keeper == nil || r.kept {
		return nil
	}
	return c.Keeper.Keep(ctx, c.At.URL+"/"+name, r.text, r.etag)
}

// logFiles reads the files of the log.
type logFiles struct{ *Client }

// ReadFile implements tlog.Files.
func (f logFiles) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	return f.Read(ctx, LogDir+"/"+name, limit)
}

// A View is a checkpoint that the client believes, and what it remembered before.
type View struct {
	tlog.Tree
	known *rollback.Step // the checkpoint before; nil at first contact
	read  *reading
}

const checkpointFile = LogDir + "/" + tlog.CheckpointFile

// Names in the journal, under the origin of the log.
const (
	keyName        = "log-key"
	checkpointName = "log-checkpoint" // at the times of this user's clock
	sightName      = "log-sight"      // when that checkpoint was seen last, in seconds
	witnessedNames = "log-witnessed:" // of each witness, at its times: witnessName
)

// View reads the newest checkpoint of the log. It must be signed by the log's key and cosigned as the policies say,
// and continue the last one that was remembered, and that of proofs that were taken. Another key is an alarm, which a
// rotation explains (alarmed): it takes nothing over.
func (c *Client) View(ctx context.Context) (*View, error) {
	if err := c.sameKey(ctx); err != nil {
		return nil, err
	}
	view, err := c.readView(ctx)
	if fault.CodeOf(err) == fault.Unsigned {
		err = c.alarmed(ctx, keyID(c.At.Log), err)
	}
	return view, err
}

// readView is View whatever key the log was seen with.
func (c *Client) readView(ctx context.Context) (*View, error) {
	var checkpoint *tlog.Checkpoint
	read, err := c.readIf(ctx, checkpointFile, tlog.MaxCheckpoint, func(text []byte) (err error) {
		checkpoint, err = tlog.OpenFor(text, c.At.Log, c.Policies...)
		return err
	})
	if err != nil {
		return nil, hidden(c.At.URL, err)
	}
	view := &View{Tree: tlog.NewTree(checkpoint, logFiles{c}), read: read}
	all, err := c.Journal.Seen()
	if err != nil {
		return nil, err
	}
	for i := range all {
		step := &all[i]
		mine := step.Name == checkpointName
		if step.Source != c.At.Log.Name || !step.ByName || !mine && !strings.HasPrefix(step.Name, witnessedNames) {
			continue
		}
		size, err := strconv.ParseInt(step.Position, 10, 64)
		if err != nil {
			return nil, err
		}
		if !mine && size > view.Size {
			continue // a proof can be newer than a copy of the registry
		}
		// A root is 32 bytes, as a digest is: so the journal remembers it as the id of the size.
		if err := view.Extends(ctx, &tlog.Checkpoint{Size: size, Root: tlog.Hash(step.ID)}); err != nil {
			return nil, c.about(err)
		}
		if mine {
			view.known = step
		}
	}
	lastSight(all, view.known)
	return view, nil
}

// lastSight gives a remembered checkpoint the time at which this user saw it last. Its own time is that of the first.
func lastSight(seen []rollback.Step, checkpoint *rollback.Step) {
	if checkpoint == nil || checkpoint.Name != checkpointName {
		return
	}
	for _, step := range seen {
		if step.Source == checkpoint.Source && step.Name == sightName && step.ID == checkpoint.ID &&
			step.At.After(checkpoint.At) {
			checkpoint.At = step.At
		}
	}
}

// seeAgain remembers that a checkpoint is still the newest one. Not more often than it matters.
func (c *Client) seeAgain(ctx context.Context, known *rollback.Step, root cas.Digest) error {
	now := c.Now()
	if known == nil || known.ID != root || now.Sub(known.At) <= grace {
		return nil
	}
	err := c.Journal.Record(ctx, rollback.Step{Source: c.At.Log.Name, Name: sightName,
		Position: strconv.FormatInt(now.Unix(), 10), ID: root, ByName: true, At: now})
	if _, later := errors.AsType[*rollback.Error](err); later {
		return nil // another process has seen it since
	}
	return err
}

// remember makes a checkpoint the last one that was seen. A version whose time was refused must not be remembered with
// it: the next time it would count as known.
func (c *Client) remember(ctx context.Context, view *View) error {
	err := c.Journal.Record(ctx, rollback.Step{Source: c.At.Log.Name, Name: checkpointName,
		Position: strconv.FormatInt(view.Size, 10), ID: cas.Digest(view.Root), ByName: true, At: c.Now()})
	if err != nil {
		return c.about(err)
	}
	if err := c.seeAgain(ctx, view.known, cas.Digest(view.Root)); err != nil {
		return c.about(err)
	}
	if err := witnessed(ctx, c.Journal, view.Checkpoint, c.Policies); err != nil {
		return c.about(err)
	}
	return c.keep(ctx, checkpointFile, view.read)
}

// about adds what to do to an error of a log that contradicts itself.
func (c *Client) about(err error) error {
	if fault.CodeOf(err) != fault.Rollback {
		return err
	}
	f := fault.Of(err)
	if len(f.Hint) == 0 {
		f.Try("rye docs registry-trust")
	}
	return f
}

// seen returns the journal's first entry about the log for which what holds; nil if there is none.
func (c *Client) seen(what func(*rollback.Step) bool) (*rollback.Step, error) {
	all, err := c.Journal.Seen()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Source == c.At.Log.Name && what(&all[i]) {
			return &all[i], nil
		}
	}
	return nil, nil
}

// Since returns when a version has been public at the latest. For a log that this user has just met that is now:
// what it says of the time before can't be checked.
func (c *Client) Since(e *index.Entry) (time.Time, error) {
	met, err := c.seen(func(s *rollback.Step) bool { return s.Name == keyName })
	if err != nil {
		return time.Time{}, err
	}
	since := c.Now()
	if met != nil {
		since = met.At
	}
	if e.Logged.Time.After(since) {
		since = e.Logged.Time
	}
	return since, nil
}

// ParseIndex reads the index of a bundle, which the registry's key must have signed.
func (c *Client) ParseIndex(id string, text []byte) (*index.Index, error) {
	list, err := index.Parse(text)
	if err != nil {
		return nil, err
	}
	if want := IndexLabel(c.name(), id); list.Label != want {
		return nil, fault.New(fault.Integrity, "the index is named %q: expected %q", list.Label, want).
			On("expected", want).On("found", list.Label)
	}
	_, err = list.Check(func(f key.Fingerprint) (key.Public, bool) {
		return c.At.Key, f == c.At.Key.Fingerprint()
	})
	if code := fault.CodeOf(err); code == fault.UntrustedKey || code == fault.Unsigned {
		return nil, fault.New(code, "the index %q is not signed by the registry's key", list.Label).From(err).
			Because("the key in rye.yaml is " + c.At.Key.String()).Try("rye docs registry-trust")
	}
	if err != nil {
		return nil, err
	}
	for i := range list.Entries {
		if e := &list.Entries[i]; e.ID != id || e.Logged == nil || e.Archive != ArchiveFile(e.Logged.Digest) {
			return nil, fault.New(fault.Integrity, "the index %q has an entry that isn't of its registry: %s@%s",
				list.Label, e.ID, e.Version)
		}
	}
	return list, nil
}

// Index reads the index of a bundle, by one conditional request if it is kept. Before an index that has changed is
// remembered, log reads the log: what a registry says that contradicts itself must not be remembered.
func (c *Client) Index(ctx context.Context, id string, log func() error) (*index.Index, error) {
	var list *index.Index
	read, err := c.readIf(ctx, IndexFile(id), index.MaxBytes, func(text []byte) (err error) {
		list, err = c.ParseIndex(id, text)
		return err
	})
	if err == nil && !read.kept {
		err = log()
	}
	if err != nil {
		return nil, err
	}
	if err := c.Journal.Record(ctx, rollback.Step{Source: c.At.URL, Name: list.Name,
		Position: strconv.FormatInt(list.Counter, 10), ID: list.ID, ByName: true, At: c.Now()}); err != nil {
		return nil, err
	}
	return list, c.keep(ctx, IndexFile(id), read)
}

// KeptIndex returns the kept index of a bundle, verified as if it had just arrived.
func (c *Client) KeptIndex(ctx context.Context, id string) (*index.Index, error) {
	text, _, err := c.Keeper.Kept(ctx, c.At.URL+"/"+IndexFile(id))
	if err != nil {
		return nil, err
	}
	return c.ParseIndex(id, text)
}

// Prove shows that the log has the version of an index entry, and returns the proof. A version whose time can't be
// true is refused: it is earlier than that of the entry before it, or than this client saw the log without it.
func (c *Client) Prove(ctx context.Context, view *View, e *index.Entry) (*tlog.Proof, error) {
	wrong := func(text string) *fault.Error {
		return fault.New(fault.Integrity, "%s@%s: %s", e.ID, e.Version, text).On("bundle", e.ID).
			On("version", e.Version).On("log", c.At.Log.Name).On("leaf", e.Logged.Leaf).Try("rye docs registry-trust")
	}
	leaf, err := tlog.AppendEntry(nil, LogEntry(e))
	if err != nil {
		return nil, err
	}
	proof, err := view.Prove(ctx, e.Logged.Leaf, leaf)
	if fault.CodeOf(err) == fault.Integrity {
		// It may have been published together with others.
		if proof, err = c.proveGroup(ctx, view, e); err != nil {
			return nil, wrong("the log doesn't have what the index says").From(err)
		}
	}
	if err != nil {
		return nil, err
	}
	if known := view.known; known != nil {
		size, err := strconv.ParseInt(known.Position, 10, 64)
		if err != nil {
			return nil, err
		}
		if tooEarly(e.Logged.Leaf, LogEntry(e), size, known.At) {
			return nil, wrong("it says that it was published at " + e.Logged.Time.Format(time.RFC3339) +
				", and the log didn't have it at " + known.At.Format(time.RFC3339))
		}
	}
	if e.Logged.Leaf == 0 {
		return proof, c.remember(ctx, view)
	}
	text, err := view.Entry(ctx, e.Logged.Leaf-1)
	if err != nil {
		return nil, err
	}
	before, err := tlog.ParseEntry(text)
	if err != nil {
		return nil, err
	}
	if e.Logged.Time.Before(before.Time) {
		return nil, wrong("it says that it was published before the entry before it")
	}
	return proof, c.remember(ctx, view)
}

// proveGroup returns the proof of a version that the log has in an entry for several.
func (c *Client) proveGroup(ctx context.Context, view *View, e *index.Entry) (*tlog.Proof, error) {
	text, err := view.Entry(ctx, e.Logged.Leaf)
	if err != nil {
		return nil, err
	}
	entry, err := tlog.ParseEntry(text)
	if err != nil {
		return nil, err
	}
	if !entrySays(entry, e) {
		return nil, fault.New(fault.Integrity, "the entry is about something else")
	}
	return view.Prove(ctx, e.Logged.Leaf, text)
}

// entrySays reports whether an entry of the log publishes exactly what an index entry says.
func entrySays(entry *tlog.Entry, e *index.Entry) bool {
	if entry.By != e.Logged.By || !entry.Time.Equal(e.Logged.Time) {
		return false
	}
	want := LogEntry(e).Release
	for _, release := range entry.All() {
		if release == want {
			return true
		}
	}
	return false
}

// Archive returns the archive of an index entry. The reader ends in an error if the bytes aren't those of the entry.
func (c *Client) Archive(ctx context.Context, e *index.Entry) (io.ReadCloser, error) {
	body, _, err := c.Fetch.Get(ctx, c.At.URL+"/"+e.Archive, e.Size)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fault.New(fault.Registry, "the registry has no archive of %s@%s", e.ID, e.Version).From(err).
				On("bundle", e.ID).On("version", e.Version)
		}
		return nil, err
	}
	return cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: e.Logged.Digest}, Size: e.Size}, body), nil
}

// ReadDescription reads registry.yaml of a registry that isn't known yet.
func ReadDescription(ctx context.Context, fetch Fetcher, url string) (*Description, error) {
	c := &Client{At: project.Registry{URL: url}, Fetch: fetch}
	text, err := c.Read(ctx, DescriptionFile, MaxDescription)
	if _, _, private := SplitPrivate(url); private && errors.Is(err, fs.ErrNotExist) {
		return nil, hidden(url, err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "%q is not a registry: it has no %s", url, DescriptionFile).From(err).
			On("url", url)
	}
	if err != nil {
		return nil, err
	}
	return ParseDescription(text)
}
