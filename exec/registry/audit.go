package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// An Event is something that happened: an entry of the log, or a change of an account that only the host sees.
type Event struct {
	Time     time.Time       `json:"time"`
	What     string          `json:"what"`              // the kind of the log's entry, or one of those below
	Account  string          `json:"account"`           // who did it, or whose account or token it is
	Name     string          `json:"name,omitempty"`    // of a bundle, or a namespace
	Version  string          `json:"version,omitempty"` // of a bundle
	Entry    *int64          `json:"entry,omitempty"`   // its number in the log
	Private  bool            `json:"private,omitempty"` // that log is the one of a private namespace
	Token    string          `json:"token,omitempty"`   // its id
	Detail   string          `json:"detail,omitempty"`
	Document json.RawMessage `json:"document,omitempty"` // what the log's entry says
}

// What happens to accounts.
const (
	AccountAdded    = "account-add"
	AccountDisabled = "account-disable"
	AccountEnabled  = "account-enable"
	AccountReset    = "account-reset"
	PasskeyAdded    = "passkey-add"
	PasskeyRemoved  = "passkey-remove"
	PasskeyCopied   = "passkey-copied" // its counter did not grow
	TokenAdded      = "token-add"
	TokenRemoved    = "token-remove"
)

// maxEvents is how many events of accounts are kept: the newest.
const maxEvents = 100_000

// eventRow returns the name of the row of an event.
func eventRow(n int64) string { return fmt.Sprintf("audit/%012d", n) }

// A numbering is the row that numbers events.
type numbering struct {
	Next int64 `json:"next"`
}

// note records an event in the transaction that makes it happen.
func (r *Registry) note(in rows.Writer, e Event) error {
	numbers, err := get[numbering](in, "audit")
	if err != nil {
		return err
	}
	if numbers == nil {
		numbers = &numbering{}
	}
	e.Time = r.now()
	if err := put(in, eventRow(numbers.Next), e); err != nil {
		return err
	}
	if numbers.Next >= maxEvents {
		in.Delete(eventRow(numbers.Next - maxEvents))
	}
	numbers.Next++
	return put(in, "audit", numbers)
}

// A Filter says which events Audit returns. Its zero value is for all.
type Filter struct {
	Account      string
	Name         string // a namespace or a bundle
	Since, Until time.Time
}

// has reports whether an event is one of those.
func (f *Filter) has(e *Event) bool {
	return (f.Account == "" || e.Account == f.Account) &&
		(f.Name == "" || e.Name == f.Name || strings.HasPrefix(e.Name, f.Name+"/")) &&
		!e.Time.Before(f.Since) && (f.Until.IsZero() || e.Time.Before(f.Until))
}

// Audit returns what happened, in the order of time.
func (r *Registry) Audit(ctx context.Context, filter Filter) ([]Event, error) {
	all := []Event{}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		all = all[:0]
		return each(in, "audit/", func(_ string, e *Event) (bool, error) {
			if filter.has(e) {
				all = append(all, *e)
			}
			return true, nil
		})
	}); err != nil {
		return nil, err
	}
	if err := r.eachLog(ctx, func(ctx context.Context, l *log) error {
		some, err := r.auditLog(ctx, l, filter)
		all = append(all, some...)
		return err
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// auditLog returns what the entries of a log say.
func (r *Registry) auditLog(ctx context.Context, l *log, filter Filter) (all []Event, err error) {
	documents := map[int]cas.Digest{}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		all = all[:0]
		clear(documents)
		n := int64(-1)
		return each(in, l.entryRows(), func(name string, row *leaf) (bool, error) {
			n++
			entry, err := tlog.ParseEntry([]byte(row.Entry))
			if err != nil || l.entryRow(n) != l.entryRows()+name {
				return false, damagedRow(l.entryRows()+name, err)
			}
			for _, e := range eventsOf(l, n, entry) {
				if filter.has(&e) {
					if !entry.Document.IsZero() {
						documents[len(all)] = entry.Document
					}
					all = append(all, e)
				}
			}
			return true, nil
		})
	}); err != nil {
		return nil, err
	}
	for i, digest := range documents {
		if all[i].Document, err = r.document(ctx, l, digest); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// eventsOf returns the events of an entry of a log: one for each version of a group.
func eventsOf(l *log, n int64, entry *tlog.Entry) (all []Event) {
	about := entry.All()
	if len(about) == 0 {
		about = []tlog.Release{entry.Release}
	}
	for _, release := range about {
		all = append(all, Event{Time: entry.Time, What: string(entry.Kind), Account: entry.By, Name: release.Bundle,
			Version: release.Version, Entry: &n, Private: !l.public()})
	}
	return all
}

// document returns what an entry of a log says, if that is JSON.
func (r *Registry) document(ctx context.Context, l *log, digest cas.Digest) (json.RawMessage, error) {
	file, err := r.o.Blobs.Open(ctx, l.dir+client.DocumentFile(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := readAll(file, rows.MaxValue)
	if err != nil || !json.Valid(text) {
		return nil, err
	}
	return text, nil
}
