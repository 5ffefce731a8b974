package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/passkey"
	"github.com/rye-build/rye/exec/registry/pipeline"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

// Options configures Open. Rows, Blobs, Name, LogKey, IndexKey, Now and TempDir are required.
type Options struct {
	Rows     rows.Store
	Blobs    blobs.Store
	Name     string      // the registry's name: its host
	LogKey   key.Private // signs checkpoints, and the document that replaces it
	IndexKey key.Private
	Now      func() time.Time
	TempDir  string // for archives that arrive

	Below    []*ai.Space // the library, which items of bundles may use
	Reserved []string    // namespaces that can't be claimed, with those of rye itself
	Limits   Limits
	Signup   Signup  // who can make an account; "" is SignupClosed
	URL      string  // of its pages; "" is https://NAME
	Witness  Witness // asks witnesses for cosignatures; nil: there are none
	Issuers  Issuers // of the tokens of pipelines; nil: there are none
	// TXT reads the TXT records of a name; nil: no namespace that is a domain can be claimed.
	TXT     func(ctx context.Context, name string) ([]string, error)
	Warn    func(error) // of what happens beside requests; may be nil
	Metrics *Metrics    // what is counted; nil: it isn't shown
}

// Limits bound what is published. A limit of 0 has the value below.
type Limits struct {
	Archive  int64 // bytes of an archive
	Unpacked int64 // bytes of its files
	Files    int   // number of its files
	Ratio    int64 // of the files' bytes to the archive's
	Account  int64 // bytes of all archives of an account
	Versions int   // that an account publishes in a day
}

// The limits of a registry without others.
const (
	maxArchive  = 256 << 20
	maxUnpacked = 2 << 30
	maxFiles    = 100_000
	maxRatio    = 200
	maxAccount  = 50 << 30
	maxVersions = 1000

	// smallRatio is how many bytes may come of an archive whatever the ratio.
	smallRatio = 16 << 20
)

// A Witness asks the witnesses of a log.
type Witness interface {
	// Cosign returns a checkpoint with the cosignatures that its witnesses answered.
	Cosign(ctx context.Context, c *tlog.Checkpoint, tree tlog.Tree) (*tlog.Checkpoint, error)
	// Confirm returns nil if all witnesses say that no checkpoint of the log is newer than this one.
	Confirm(ctx context.Context, c *tlog.Checkpoint, tree tlog.Tree) error
}

// Issuers say which run of a pipeline a token belongs to.
type Issuers interface {
	Identify(ctx context.Context, token string) (*pipeline.Run, error)
}

// A Registry is the service. It is safe for concurrent use, and several processes may serve the same stores.
type Registry struct {
	o       Options
	public  *log
	process string // the name of this process in leases

	url    string        // of its pages
	site   *passkey.Site // nil: noSite says why there are no passkeys
	noSite error

	locker   rows.Locker // of the stores' machine; nil if several may serve them
	flushing sync.Mutex  // of the logs' files
	unlock   func()      // ends the lock of a lease that is held; nil without one
	tail     *tlog.Tail  // the right edge of the log whose files were written last; nil: unknown
	tailOf   string      // the name of that log
}

// newRegistry returns a registry that has not looked at its stores.
func newRegistry(o Options) (*Registry, error) {
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	o.Limits = o.Limits.orDefault()
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	locker, _ := o.Rows.(rows.Locker)
	o.Rows = timedRows{o.Rows, o.Metrics.rows}
	if err := client.CheckName(o.Name); err != nil {
		return nil, fault.New(fault.Config, "the name of the registry: %v", err).From(err)
	}
	public, err := publicLog(&o)
	if err != nil {
		return nil, err
	}
	r := &Registry{o: o, public: public, process: newProcess(), locker: locker}
	if r.url, err = siteOf(o.Name, o.URL); err != nil {
		return nil, err
	}
	if !slices.Contains([]Signup{"", SignupClosed, SignupInvite, SignupOpen}, o.Signup) {
		return nil, fault.New(fault.Config, "signup: %q is not closed, invite or open", o.Signup)
	}
	// A name that is no domain, such as an address, can't have passkeys; its host makes tokens.
	r.site, r.noSite = passkey.New(o.Name, r.url)
	return r, nil
}

// Open opens a registry, and completes what an earlier process began.
func Open(ctx context.Context, o Options) (*Registry, error) {
	r, err := newRegistry(o)
	if err != nil {
		return nil, err
	}
	if err := r.o.Rows.View(ctx, checkFinished); err != nil {
		return nil, err
	}
	if err := errors.Join(r.describe(ctx, r.public), r.showRotations(ctx)); err != nil {
		return nil, err
	}
	return r, r.eachLog(ctx, func(ctx context.Context, l *log) error {
		if awake, err := r.wake(ctx, l); err != nil || !awake {
			return err
		}
		// What can't be shown yet, because witnesses are away, is shown later; what was shown is served.
		err := r.reissue(ctx, l)
		if code := fault.CodeOf(err); code == fault.Unavailable || code == fault.Busy {
			r.o.Warn(err)
			err = nil
		}
		return err
	})
}

func (l Limits) orDefault() Limits {
	for _, limit := range []struct {
		at  *int64
		def int64
	}{{&l.Archive, maxArchive}, {&l.Unpacked, maxUnpacked}, {&l.Ratio, maxRatio}, {&l.Account, maxAccount}} {
		if *limit.at == 0 {
			*limit.at = limit.def
		}
	}
	if l.Files == 0 {
		l.Files = maxFiles
	}
	if l.Versions == 0 {
		l.Versions = maxVersions
	}
	return l
}

// describe writes registry.yaml of a log, or refuses to serve another registry's files. Those of the public log's key
// before are taken over.
func (r *Registry) describe(ctx context.Context, l *log) error {
	want, err := r.description(l)
	if err != nil {
		return err
	}
	name := l.dir + client.DescriptionFile
	file, err := r.o.Blobs.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return r.o.Blobs.Replace(ctx, name, want)
	}
	if err != nil {
		return err
	}
	text, err := readAll(file, client.MaxDescription)
	if err != nil {
		return err
	}
	if string(text) == string(want) {
		return nil
	}
	e := fault.New(fault.Conflict, "the files are those of another registry, or of one with other keys").
		On("path", name)
	if old, err := client.ParseDescription(text); err == nil {
		made, err := r.rotatedFrom(ctx, old.Log)
		if err != nil {
			return err
		}
		if made != nil && l.public() && old.Name == l.title && old.Key == l.indexes.Public() {
			return r.takeOver(ctx, made)
		}
		e.Because("its name is "+old.Name+", its log's key "+old.Log.String(), "here they are "+l.title+" and "+
			l.key.String())
	}
	return e
}

// description returns registry.yaml of a log.
func (r *Registry) description(l *log) ([]byte, error) {
	d := client.Description{Name: l.title, Log: l.key, Key: l.indexes.Public()}
	return d.Append(nil)
}

// Log returns the key of the public log.
func (r *Registry) Log() tlog.Key { return r.public.key }

// Name returns the name of the registry.
func (r *Registry) Name() string { return r.o.Name }

// now returns the time in whole seconds, as documents have it.
func (r *Registry) now() time.Time { return r.o.Now().UTC().Truncate(time.Second) }

// get returns a row, or nil.
func get[T any](in rows.Reader, name string) (*T, error) {
	b, err := in.Get(name)
	if err != nil || b == nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(b, value); err != nil {
		return nil, damagedRow(name, err)
	}
	return value, nil
}

func damagedRow(name string, err error) error {
	return fault.New(fault.Registry, "the row %q can't be read", name).From(err).On("row", name).
		Try("ryed registry verify")
}

// put writes a row.
func put(in rows.Writer, name string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	in.Put(name, b)
	return nil
}

// each calls visit for all rows with a prefix, until it returns false or an error.
func each[T any](in rows.Reader, prefix string, visit func(name string, value *T) (bool, error)) error {
	for row, err := range in.Scan(prefix, "") {
		if err != nil {
			return err
		}
		value := new(T)
		if err := json.Unmarshal(row.Value, value); err != nil {
			return damagedRow(row.Name, err)
		}
		if more, err := visit(row.Name[len(prefix):], value); err != nil || !more {
			return err
		}
	}
	return nil
}
