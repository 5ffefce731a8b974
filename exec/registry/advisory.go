package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/lock/advisory"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/tlog"
)

// host is the name in the log of who runs the registry. No account can have it.
const host = "@registry"

// An advisoryRow is the row of an advisory.
type advisoryRow struct {
	Text   string     `json:"text"` // of the newest document
	Digest cas.Digest `json:"digest"`
	Leaf   int64      `json:"leaf"`
}

// A listRow is the row of the list of a log's advisories.
type listRow struct {
	Counter int64     `json:"counter"` // of the newest issue
	Shown   int64     `json:"shown"`   // of the issue that the file has
	Issued  time.Time `json:"issued"`
	Last    int       `json:"last"` // the number in the last id that the registry gave
}

// reissueEvery is how old a list of advisories becomes before it is issued again unchanged.
const reissueEvery = time.Hour

// Advise adds an advisory, or revises the one with its id. The registry sets the times and, if there is none, the id.
// It must be about a published bundle. Clients of a private namespace read it in the list of that.
func (r *Registry) Advise(ctx context.Context, draft *advisory.Advisory) (*advisory.Advisory, error) {
	var made *advisory.Advisory
	never := fault.New(fault.NotFound, "no bundle %q was ever published here", draft.Bundle).On("bundle", draft.Bundle)
	if portable.CheckID(draft.Bundle) != nil {
		return nil, never
	}
	return made, r.change(ctx, SpaceOf(draft.Bundle), func(in rows.Writer) error {
		l, err := r.logOf(in, SpaceOf(draft.Bundle))
		if err != nil {
			return err
		}
		published, err := anyVersion(in, l, draft.Bundle)
		if err == nil && !published {
			err = never
		}
		if err == nil {
			made, err = r.advise(ctx, in, l, draft)
		}
		return err
	})
}

// anyVersion reports whether a log has a version of a bundle, unpublished ones included.
func anyVersion(in rows.Reader, l *log, id string) (found bool, err error) {
	return found, each(in, l.versionRow(id+"@"), func(string, *Version) (bool, error) {
		found = true
		return false, nil
	})
}

// advise writes the document of an advisory, its entry in a log, and its row.
func (r *Registry) advise(ctx context.Context, in rows.Writer, l *log, draft *advisory.Advisory) (*advisory.Advisory,
	error) {
	list, err := r.nextIssue(in, l)
	if err != nil {
		return nil, err
	}
	a := *draft
	a.Modified, a.Published = list.Issued, list.Issued
	var old *advisory.Advisory
	if a.ID == "" {
		if a.ID, err = newAdvisoryID(in, l, list); err != nil {
			return nil, err
		}
	} else if old, err = advisoryOf(in, l, a.ID); err != nil {
		return nil, err
	}
	if old != nil {
		switch {
		case old.Bundle != a.Bundle:
			return nil, fault.New(fault.Conflict, "the advisory %s is about %q", a.ID, old.Bundle).On("advisory", a.ID)
		case !old.Withdrawn.IsZero():
			return nil, fault.New(fault.Conflict, "the advisory %s is withdrawn: it needs another id", a.ID).
				On("advisory", a.ID)
		}
		a.Published = old.Published
	}
	text, err := a.Append(nil)
	if err != nil {
		return nil, err
	}
	row := advisoryRow{Text: string(text), Digest: cas.Sum(text)}
	// The document comes before the entry that names it.
	if err := r.o.Blobs.Replace(ctx, l.newDocument(row.Digest), text); err != nil {
		return nil, err
	}
	if row.Leaf, err = r.appendEntry(in, l, &tlog.Entry{Kind: tlog.Advisory, Release: tlog.Release{Bundle: a.Bundle},
		Document: row.Digest, By: host}); err != nil {
		return nil, err
	}
	if err := put(in, l.advisoryRow(a.ID), row); err != nil {
		return nil, err
	}
	return &a, put(in, l.listRow(), list)
}

// beginList makes the list of a new log due.
func (r *Registry) beginList(in rows.Writer, l *log) error {
	if old, err := get[listRow](in, l.listRow()); err != nil || old != nil {
		return err
	}
	list, err := r.nextIssue(in, l)
	if err != nil {
		return err
	}
	return put(in, l.listRow(), list)
}

// nextIssue returns the row of the next issue of a log's list. Its time isn't earlier than that of the last one, and
// its counter isn't lower than that time in seconds: so a registry that was restored from a backup doesn't go back to
// a counter that clients have seen.
func (r *Registry) nextIssue(in rows.Reader, l *log) (*listRow, error) {
	list, err := get[listRow](in, l.listRow())
	if err != nil {
		return nil, err
	}
	if list == nil {
		list = &listRow{}
	}
	if now := r.now(); now.After(list.Issued) {
		list.Issued = now
	}
	list.Counter = max(list.Counter+1, list.Issued.Unix())
	return list, nil
}

// newAdvisoryID returns an id that no advisory has, as RYE-2026-0001.
func newAdvisoryID(in rows.Reader, l *log, list *listRow) (string, error) {
	for {
		list.Last++
		id := fmt.Sprintf("RYE-%d-%04d", list.Issued.Year(), list.Last)
		if old, err := advisoryOf(in, l, id); err != nil || old == nil {
			return id, err
		}
	}
}

// advisoryOf returns an advisory of a log, or nil.
func advisoryOf(in rows.Reader, l *log, id string) (*advisory.Advisory, error) {
	if !advisory.IsID(id) {
		return nil, nil
	}
	row, err := get[advisoryRow](in, l.advisoryRow(id))
	if err != nil || row == nil {
		return nil, err
	}
	return row.parse(l, id)
}

func (row *advisoryRow) parse(l *log, id string) (*advisory.Advisory, error) {
	a, err := advisory.Parse([]byte(row.Text))
	if err != nil {
		return nil, damagedRow(l.advisoryRow(id), err)
	}
	return a, nil
}

// WithdrawAdvisory makes an advisory count no more. It stays in the list: that of a private namespace, or for "" the
// public one.
func (r *Registry) WithdrawAdvisory(ctx context.Context, private, id string) (*advisory.Advisory, error) {
	if private != "" && portable.CheckID(private) != nil {
		return nil, unclaimed(private)
	}
	l, err := r.logNamed(private)
	if err != nil {
		return nil, err
	}
	var made *advisory.Advisory
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		old, err := advisoryOf(in, l, id)
		switch {
		case err != nil:
			return err
		case old == nil:
			return fault.New(fault.NotFound, "there is no advisory %q", fault.Clip(id, 100)).On("advisory", id).
				Try("ryed registry advisory list")
		case !old.Withdrawn.IsZero():
			made = old
			return nil
		}
		withdrawn := *old
		withdrawn.Withdrawn = r.now()
		if withdrawn.Withdrawn.Before(old.Published) { // a clock that went back
			withdrawn.Withdrawn = old.Published
		}
		made, err = r.advise(ctx, in, l, &withdrawn)
		return err
	}); err != nil {
		return nil, err
	}
	return made, r.flush(ctx, l)
}

// An Advised is an advisory, and the private namespace whose list has it; "" for the public list.
type Advised struct {
	*advisory.Advisory
	Private string
}

// Advisories returns the advisories of all lists, by their ids.
func (r *Registry) Advisories(ctx context.Context) (all []Advised, err error) {
	return all, r.eachLog(ctx, func(ctx context.Context, l *log) error {
		var some []Advised
		err := r.o.Rows.View(ctx, func(in rows.Reader) error {
			some = nil
			return each(in, l.advisoryRows(), func(id string, row *advisoryRow) (bool, error) {
				a, err := row.parse(l, id)
				some = append(some, Advised{a, l.space})
				return true, err
			})
		})
		all = append(all, some...)
		return err
	})
}

// A Reason is why a version is taken down.
type Reason string

// The reasons for a takedown.
const (
	Secrets Reason = "secrets" // it has secrets in it
	Malware Reason = "malware"
)

// Reasons are all reasons.
var Reasons = []Reason{Secrets, Malware}

// takedownAdvisory returns the advisory of a takedown.
func takedownAdvisory(v *Version, why Reason, summary string) *advisory.Advisory {
	a := &advisory.Advisory{Bundle: v.Bundle, Versions: []string{v.Version}, Kind: advisory.Malware,
		Severity: policy.Critical, Summary: v.Key() + " is malware"}
	if why == Secrets {
		a.Kind, a.Severity, a.Summary = advisory.Withdrawn, policy.Medium, v.Key()+" has secrets in it"
	}
	if summary != "" {
		a.Summary = summary
	}
	return a
}

// takenDown returns the advisory of an earlier takedown of a version, or nil.
func takenDown(in rows.Reader, l *log, v *Version, why Reason) (found *advisory.Advisory, err error) {
	want := takedownAdvisory(v, why, "")
	return found, each(in, l.advisoryRows(), func(id string, row *advisoryRow) (bool, error) {
		a, err := row.parse(l, id)
		if err == nil && a.Bundle == v.Bundle && a.Kind == want.Kind && len(a.Spans) == 0 && a.Withdrawn.IsZero() &&
			slices.Equal(a.Versions, want.Versions) {
			found = a
		}
		return found == nil, err
	})
}

// Takedown removes a version's archive, whenever it was published and whatever requires it. Its number is never given
// again, the log keeps that it was there, and an advisory says why it is gone. It is for who runs the registry.
func (r *Registry) Takedown(ctx context.Context, id, version string, why Reason, summary string) (*advisory.Advisory,
	error) {
	if portable.CheckID(id) != nil || manifest.CheckVersion(version) != nil {
		return nil, noVersion(id, version)
	}
	if why != Secrets && why != Malware {
		return nil, fault.New(fault.Validation, "unknown reason %q: expected one of %v", why, Reasons)
	}
	var made *advisory.Advisory
	return made, r.change(ctx, SpaceOf(id), func(in rows.Writer) error {
		logs, err := r.logsOf(in, SpaceOf(id))
		if err != nil {
			return err
		}
		for i, l := range logs {
			v, err := get[Version](in, l.versionRow(id+"@"+version))
			if err != nil {
				return err
			}
			switch {
			case i > 0 && (v == nil || v.Unpublished > 0):
				continue // it was never in the private log, or is gone from there
			case i > 0 && signing(in, l) != nil:
				r.o.Warn(fault.New(fault.Unavailable, "%s stays in the private log of %q, which signs nothing",
					v.Key(), l.space))
				continue
			case v == nil:
				return noVersion(id, version)
			}
			a, err := r.takedown(ctx, in, l, v, why, summary)
			if err != nil {
				return err
			}
			if i == 0 {
				made = a
			}
		}
		return nil
	})
}

// takedown removes a version from a log.
func (r *Registry) takedown(ctx context.Context, in rows.Writer, l *log, v *Version, why Reason, summary string) (
	*advisory.Advisory, error) {
	if v.Unpublished > 0 {
		if made, err := takenDown(in, l, v, why); err != nil || made != nil {
			return made, err // the answer to an earlier request was lost
		}
		return nil, fault.New(fault.Conflict, "%s is unpublished already", v.Key()).On("bundle", v.Bundle).
			On("version", v.Version).
			Try("ryed registry advisory add --bundle " + fault.Quote(v.Bundle) + " --versions =" + v.Version)
	}
	if err := r.withdraw(in, l, v, host, true); err != nil {
		return nil, err
	}
	return r.advise(ctx, in, l, takedownAdvisory(v, why, summary))
}

// Reissue issues the lists of advisories again whose last issue has become old, and writes what files don't show yet.
// A registry that serves calls it now and then: the age of a list tells clients how long ago the registry vouched for
// it.
func (r *Registry) Reissue(ctx context.Context) error { return r.eachLog(ctx, r.reissue) }

func (r *Registry) reissue(ctx context.Context, l *log) error {
	due := false
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		list, err := get[listRow](in, l.listRow())
		if err != nil {
			return err
		}
		stopped, err := get[halt](in, l.haltRow())
		due = stopped == nil && (list == nil || r.now().Sub(list.Issued) >= reissueEvery)
		return err
	}); err != nil {
		return err
	}
	if due {
		if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
			list, err := r.nextIssue(in, l)
			if err != nil {
				return err
			}
			return put(in, l.listRow(), list)
		}); err != nil {
			return err
		}
	}
	return r.flush(ctx, l)
}

// listDue reports whether the file of the list is older than its row; with now, whether it may be written now: a log
// that has stopped signs nothing.
func (r *Registry) listDue(ctx context.Context, l *log, now bool) (due bool, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		list, err := get[listRow](in, l.listRow())
		if due = list != nil && list.Shown < list.Counter; err != nil || !now {
			return err
		}
		stopped, err := get[halt](in, l.haltRow())
		due = due && stopped == nil
		return err
	})
	return due, err
}

// writeList writes the file of the list, and the row that says so, which ends the lease. The files show every entry
// that the list names: otherwise it is left to the next flush.
func (r *Registry) writeList(ctx context.Context, l *log) error {
	text, counter, err := r.makeList(ctx, l, nil)
	if err != nil {
		return err
	}
	if text != nil {
		if err := r.o.Blobs.Replace(ctx, l.dir+client.AdvisoriesFile, text); err != nil {
			return err
		}
	}
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		held, err := get[lease](in, leaseRow)
		if err != nil {
			return err
		}
		if held != nil && held.Holder == r.process {
			in.Delete(leaseRow)
		}
		now, err := get[listRow](in, l.listRow())
		if err != nil || text == nil || now.Shown >= counter {
			return err
		}
		now.Shown = counter
		return put(in, l.listRow(), now)
	})
}

// makeList returns the signed list of a log's advisories, whose bytes depend on the rows alone, and its counter. It
// returns no text while an entry of the log isn't shown; of a log that is restored, c shows as many as it has.
func (r *Registry) makeList(ctx context.Context, l *log, c *tlog.Checkpoint) (text []byte, counter int64, err error) {
	var list *advisory.List
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		list = nil
		state, err := get[logState](in, l.stateRow())
		if err != nil || state != nil && state.Shown < state.Size {
			return err
		}
		row, err := get[listRow](in, l.listRow())
		if err != nil || row == nil {
			return err
		}
		list = &advisory.List{Registry: l.title, Counter: row.Counter, Issued: row.Issued}
		return each(in, l.advisoryRows(), func(id string, row *advisoryRow) (bool, error) {
			if c != nil && row.Leaf >= c.Size {
				list = nil
				return false, nil
			}
			a, err := row.parse(l, id)
			if err == nil {
				list.Entries = append(list.Entries, advisory.Entry{ID: id, Bundle: a.Bundle, Document: row.Digest,
					Leaf: row.Leaf, Modified: a.Modified})
			}
			return true, err
		})
	}); err != nil || list == nil {
		return nil, 0, err
	}
	body, made, err := advisory.AppendList(nil, list)
	if err != nil {
		return nil, 0, err
	}
	if err := made.Sign(l.indexes, list.Issued); err != nil {
		return nil, 0, err
	}
	return manifest.Join(nil, body, made.Signatures), list.Counter, nil
}

// checkAdvisories makes the list of a log's advisories again from the rows, and reads the documents that its entries
// name.
func (r *Registry) checkAdvisories(ctx context.Context, check *Check, l *log) error {
	due, err := r.listDue(ctx, l, false)
	if err != nil {
		return err
	}
	if !due {
		text, _, err := r.makeList(ctx, l, nil)
		if err != nil {
			return err
		}
		if text != nil {
			if err := r.same(ctx, check, l.dir+client.AdvisoriesFile, text); err != nil {
				return err
			}
		}
	}
	documents := map[cas.Digest]bool{}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		clear(documents)
		return each(in, l.entryRows(), func(n string, row *leaf) (bool, error) {
			entry, err := tlog.ParseEntry([]byte(row.Entry))
			if err != nil {
				return false, damagedRow(l.entryRows()+n, err)
			}
			if !entry.Document.IsZero() {
				documents[entry.Document] = true
			}
			return true, nil
		})
	}); err != nil {
		return err
	}
	for digest := range documents {
		if err := r.checkDocument(ctx, check, l, digest); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) checkDocument(ctx context.Context, check *Check, l *log, digest cas.Digest) error {
	name := l.dir + client.DocumentFile(digest)
	file, err := r.o.Blobs.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		check.wrong("%s is missing", name)
		return nil
	}
	if err != nil {
		return err
	}
	text, err := readAll(file, max(file.Size, 1))
	if err != nil || cas.Sum(text) != digest {
		check.wrong("%s is damaged", name)
	}
	return nil
}
