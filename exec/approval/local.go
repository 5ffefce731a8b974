package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A Log records each step before it is made, like audit.Log.
type Log interface {
	Ask(context.Context, *record.Approval) error
}

// Local is the journal of this machine. Its opener closes it.
type Local struct {
	Now  func() time.Time
	Log  Log                      // nil: read-only
	Runs func(process int) string // as in roster.Local
	ID   func() string            // of a new request; NewID outside of tests

	dir  string
	keys *secret.Store
	book journal.Book[*rows]
}

// Open returns the requests in a user's state directory. The first write creates the files. The caller closes it.
func Open(state string, now func() time.Time, log Log, hook journal.Hook) *Local {
	dir := filepath.Join(state, "approvals")
	return &Local{Now: now, Log: log, Runs: proc.Start, ID: NewID, dir: dir,
		keys: &secret.Store{Dir: filepath.Join(state, "auth"), Now: now, Wait: osfile.LockWait},
		book: journal.Book[*rows]{Path: filepath.Join(dir, "requests"), Format: "rye approvals", Hook: hook,
			Empty: func() *rows { return &rows{byID: map[string]*Request{}} },
			Lost: []string{"it has the requests for approvals of this user",
				"if its directory is moved away, calls that wait have to ask again"}}}
}

// Close closes the file.
func (l *Local) Close() error { return l.book.Close() }

// entry is a record of the book.
type entry struct {
	Op      string   `json:"op"`
	Request *Request `json:"request"`
}

// rows are the sum of the records.
type rows struct {
	byID   map[string]*Request
	newest time.Time
}

var isID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
})

// Take implements journal.Total.
func (r *rows) Take(text []byte) error {
	var e entry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return err
	}
	q := e.Request
	if q == nil || !isID().MatchString(q.ID) || !slices.Contains(States, q.State) || q.Kind != Call &&
		q.Kind != Gate || q.Span < 0 {
		return errors.New("not a request for an approval")
	}
	if old := r.byID[q.ID]; old != nil && old.State != q.State && !slices.Contains(next[old.State], q.State) {
		return fmt.Errorf("a request that is %s can't become %s", old.State, q.State)
	}
	r.byID[q.ID] = q
	if q.Updated.After(r.newest) {
		r.newest = q.Updated
	}
	return nil
}

// keep is how long a compacted book keeps requests that have ended.
const keep = 30 * 24 * time.Hour

// Records implements journal.Total.
func (r *rows) Records() (all [][]byte) {
	for _, id := range slices.Sorted(maps.Keys(r.byID)) {
		q := r.byID[id]
		if q.State.Ended() && r.newest.Sub(q.Updated) > keep {
			continue
		}
		b, _ := json.Marshal(entry{"row", q}) // never fails
		all = append(all, b)
	}
	return all
}

// now returns the time in the precision of records.
func (l *Local) now() time.Time { return l.Now().UTC().Truncate(time.Millisecond) }

// skew is the largest step back of the clock without an effect.
const skew = time.Minute

// lapsed returns the state of a request at a time, with expiry that isn't recorded yet.
func (l *Local) lapsed(request *Request, now time.Time) State {
	from := request.Created
	if !request.Answered.IsZero() {
		from = request.Answered
	}
	open := request.State == Pending || request.State == Approved
	switch {
	case open && !request.Expires.IsZero() && (!now.Before(request.Expires) || now.Before(from.Add(-skew))):
		return Expired
	case request.State == Executing && l.Runs(request.Driver.Process) != request.Driver.Start:
		return Unknown
	}
	return request.State
}

// seen returns a copy of a request with its current state.
func (l *Local) seen(r *Request, now time.Time) *Request {
	c := *r
	c.Lines = slices.Clone(r.Lines)
	c.State = l.lapsed(r, now)
	return &c
}

// Watch implements Approvals. It records expiry before showing it, so that a clock that goes back can't undo it.
// Without a log, or if writing fails, it only shows expiry.
func (l *Local) Watch(ctx context.Context, f Filter, look func([]*Request) (bool, error)) error {
	for records := l.Log != nil; ; {
		late := false
		err := l.book.Watch(ctx, func(r *rows) (bool, error) {
			var all []*Request
			now := l.now()
			for _, old := range r.byID {
				q := l.seen(old, now)
				late = late || q.State == Expired && old.State != Expired
				if f.takes(q) {
					all = append(all, q)
				}
			}
			if late = late && records; late {
				return true, nil
			}
			sortNewest(all)
			return look(all)
		})
		if err != nil || !late {
			return err
		}
		records = l.book.Change(ctx, func(r *rows) ([]any, error) { return l.settle(ctx, r, l.now()) }) == nil
	}
}

func sortNewest(all []*Request) {
	slices.SortFunc(all, func(a, b *Request) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
}

// step returns the record of a changed request, after writing it to the audit log.
func (l *Local) step(ctx context.Context, r *Request) (entry, error) {
	if l.Log == nil {
		return entry{}, fault.New(fault.Unavailable, "requests for approvals can't be changed without the audit log")
	}
	err := l.Log.Ask(ctx, &record.Approval{By: r.By, Code: r.Code, Params: r.Shown, Principal: r.Principal, Ref: r.Ref,
		Request: r.ID, State: string(r.State),
		Tenant: r.Tenant, Thread: r.Thread, Through: r.Through})
	return entry{string(r.State), r}, err
}

// settle returns the records of expired and abandoned requests, and removes sealed files that are no longer needed.
func (l *Local) settle(ctx context.Context, journal *rows, now time.Time) (records []any, err error) {
	for _, id := range slices.Sorted(maps.Keys(journal.byID)) {
		q := l.seen(journal.byID[id], now)
		if q.State == journal.byID[id].State {
			continue
		}
		q.Updated = now
		e, err := l.step(ctx, q)
		if err != nil {
			return nil, err
		}
		records = append(records, e)
	}
	files, err := os.ReadDir(filepath.Join(l.dir, "sealed"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		id, part, _ := strings.Cut(f.Name(), ".")
		if q := journal.byID[id]; q == nil || !q.keeps(Part(part), l.lapsed(q, now), now) {
			os.Remove(filepath.Join(l.dir, "sealed", f.Name())) // if this fails, a later step removes it
		}
	}
	return records, nil
}

// keeps reports whether a part of a request is still needed.
func (r *Request) keeps(p Part, is State, now time.Time) bool {
	switch p {
	case Params:
		return !is.Ended()
	case Result:
		return is == Done && now.Before(r.Updated.Add(KeepResult)) && !now.Before(r.Updated.Add(-skew))
	}
	return false
}

// Make implements Approvals.
func (l *Local) Make(ctx context.Context, request *Request, params []byte, same func(*Request) bool) (made *Request,
	err error) {
	err = l.book.Change(ctx, func(rows *rows) ([]any, error) {
		now := l.now()
		records, err := l.settle(ctx, rows, now)
		if err != nil {
			return nil, err
		}
		made = nil
		var found []*Request
		for _, old := range rows.byID {
			if old = l.seen(old, now); same != nil && same(old) {
				found = append(found, old)
			}
		}
		if len(found) > 0 {
			sortNewest(found)
			made = found[max(0, slices.IndexFunc(found, func(old *Request) bool { return old.State == Approved }))]
			return records, nil
		}
		added := *request
		added.ID, added.State, added.Created, added.Updated, added.Expires = l.ID(), Pending, now, now,
			now.Add(request.Span)
		if params != nil {
			if err := l.seal(ctx, added.ID, Params, params); err != nil {
				return nil, err
			}
		}
		e, err := l.step(ctx, &added)
		if err != nil {
			return nil, err
		}
		made = l.seen(&added, now)
		return append(records, e), nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Do implements Approvals.
func (l *Local) Do(ctx context.Context, id string, step Step) (request *Request, err error) {
	var refused error
	err = l.book.Change(ctx, func(rows *rows) ([]any, error) {
		refused = nil
		now := l.now()
		records, err := l.settle(ctx, rows, now)
		if err != nil {
			return nil, err
		}
		old := rows.byID[id]
		if old == nil {
			refused = missing(id)
			return records, nil
		}
		request = l.seen(old, now)
		if refused = request.take(&step, now); refused != nil {
			return records, nil
		}
		if step.Result != nil {
			if err := l.seal(ctx, id, Result, step.Result); err != nil {
				return nil, err
			}
		}
		e, err := l.step(ctx, request)
		if err != nil {
			return nil, err
		}
		if step.To.Ended() {
			defer func() { os.Remove(l.sealed(id, Params)) }() // if this fails, a later step removes it
		}
		return append(records, e), nil
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return l.seen(request, l.now()), nil
}

// take applies a step to a request.
func (r *Request) take(step *Step, now time.Time) error {
	if step.Fetched && r.State.Ended() && step.To == r.State {
		r.Fetched = true
		return nil
	}
	switch {
	case !slices.Contains(next[r.State], step.To), r.Kind == Gate && step.To == Executing:
		return r.conflict(step.To)
	case step.To == Approved && r.Separate && !r.other(step.By):
		return fault.New(fault.Denied, "the request %s needs another person's approval", r.ID).On("request",
			r.ID).On("principal", r.Principal).
			Because(fmt.Sprintf("%q asked, and the policy says separate: true",
				r.Principal)).Try(fault.Command("rye approvals", r.ID))
	case (step.To == Done || step.To == Unknown) && r.Driver != step.Driver:
		return r.conflict(step.To)
	}
	r.State, r.Updated, r.Fetched = step.To, now, step.Fetched
	switch step.To {
	case Approved, Denied:
		r.By, r.Through, r.Reason, r.Answered, r.Expires = step.By, step.Through, step.Reason, now, time.Time{}
		if r.Kind == Call && step.To == Approved {
			r.Expires = now.Add(r.Span)
		}
	case Superseded:
		r.Reason = step.Reason
	case Executing:
		r.Driver, r.Execution, r.Expires = step.Driver, step.Execution, time.Time{}
	case Done:
		r.Code = step.Code
	}
	return nil
}

func (l *Local) sealed(id string, p Part) string {
	return filepath.Join(l.dir, "sealed", id+"."+string(p))
}

// seal writes an encrypted part of a request durably.
func (l *Local) seal(ctx context.Context, id string, part Part, b []byte) error {
	if part == Result {
		b = append([]byte(id+"\n"), b...)
	}
	locked, err := l.keys.Seal(ctx, b)
	if err != nil {
		return err
	}
	hook := osfile.Hook(nil)
	if l.book.Hook != nil {
		hook = func(op, path string) error { return l.book.Hook(op, path, locked) }
	}
	if err := os.MkdirAll(filepath.Join(l.dir, "sealed"), 0o700); err != nil {
		return err
	}
	return hook.WriteFile(l.sealed(id, part), 0o600, false, osfile.BytesOf(locked))
}

// maxSealed bounds the size of a part, in bytes.
const maxSealed = 80 << 20

// Read implements Approvals.
func (l *Local) Read(ctx context.Context, id string, part Part) ([]byte, error) {
	if !isID().MatchString(id) {
		return nil, fs.ErrNotExist
	}
	file, err := osfile.OpenPrivate(l.sealed(id, part), true)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	locked, err := io.ReadAll(io.LimitReader(file, maxSealed))
	if err != nil {
		return nil, err
	}
	b, err := l.keys.Unseal(locked)
	if err != nil {
		return nil, fault.New(fault.Integrity, "can't read %q: %v", file.Name(), err).From(err).On("path",
			file.Name()).
			Because("the caller has to ask again")
	}
	return l.own(ctx, id, part, b)
}

// own checks that a part belongs to its request: the files of two requests may have been swapped.
func (l *Local) own(ctx context.Context, id string, p Part, data []byte) ([]byte, error) {
	foreign := fault.New(fault.Integrity, "the stored %s is not that of the request %s", p, id).On("request", id).
		Because("a file in the state directory was replaced").Try(fault.Command("rye deny", id))
	if p == Result {
		if own, ok := bytes.CutPrefix(data, []byte(id+"\n")); ok {
			return own, nil
		}
		return nil, foreign
	}
	all, err := List(ctx, l, Filter{ID: id})
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fs.ErrNotExist
	case cas.Sum(data) != all[0].Params:
		return nil, foreign
	}
	return data, nil
}

// Self returns this process as a driver.
func Self() roster.Driver {
	host, _ := os.Hostname()
	return roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid()), Host: host}
}
