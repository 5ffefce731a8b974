package registry

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// AdvisoriesFile is the name of the list of a registry's advisories.
const AdvisoriesFile = "advisories.yaml"

// An Issue is a list of advisories that a client believes, with the documents that the last one didn't have.
type Issue struct {
	*advisory.List
	Text      []byte                // of the list
	Documents map[cas.Digest][]byte // that are new
}

// ParseAdvisories reads the list of a registry's advisories, which the registry's key must have signed.
func (c *Client) ParseAdvisories(text []byte) (*advisory.List, error) {
	list, err := advisory.ParseList(text)
	if err != nil {
		return nil, err
	}
	if list.Registry != c.name() {
		return nil, fault.New(fault.Integrity, "the advisories are those of %q: expected %q", list.Registry, c.name()).
			On("expected", c.name()).On("found", list.Registry)
	}
	_, err = list.Check(func(f key.Fingerprint) (key.Public, bool) { return c.At.Key, f == c.At.Key.Fingerprint() })
	if code := fault.CodeOf(err); code == fault.UntrustedKey || code == fault.Unsigned {
		return nil, fault.New(code, "the advisories of %q are not signed by the registry's key", list.Registry).
			From(err).Because("its key is " + c.At.Key.String()).Try("rye docs registry-trust")
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// step is what the journal remembers of a list.
func (c *Client) step(list *advisory.List) rollback.Step {
	return rollback.Step{Source: c.At.URL, Name: list.Name, Position: strconv.FormatInt(list.Counter, 10), ID: list.ID,
		ByName: true, At: c.Now()}
}

// maxAhead is how much later than this machine's clock a list may be issued.
const maxAhead = 10 * time.Minute

// Advisories reads the newest list of the registry's advisories and the documents that are new since last, which may
// be nil. The list must continue what was seen before: its counter doesn't go back, and what it listed it lists. The
// log must have each advisory that is new. The caller keeps the issue, and then has it remembered.
func (c *Client) Advisories(ctx context.Context, last *advisory.List) (*Issue, error) {
	// The log comes first: what a registry says that contradicts itself must not be remembered.
	view, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	text, err := c.Read(ctx, AdvisoriesFile, advisory.MaxList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Registry, "the registry %q has no %s", c.At.URL, AdvisoriesFile).From(err).
			On("registry", c.At.URL).Because("it is older than advisories, or a copy without them")
	}
	if err != nil {
		return nil, err
	}
	list, err := c.ParseAdvisories(text)
	if err != nil {
		return nil, err
	}
	if list.Issued.After(c.Now().Add(maxAhead)) {
		return nil, fault.New(fault.Integrity, "the advisories were issued in the future, at %s",
			list.Issued.Format(time.RFC3339)).Because("the clock says " + c.Now().UTC().Format(time.RFC3339))
	}
	if err := c.Journal.Check(c.step(list)); err != nil {
		return nil, c.about(err)
	}
	if err := continues(list, last); err != nil {
		return nil, c.about(err)
	}
	issue := &Issue{List: list, Text: text, Documents: map[cas.Digest][]byte{}}
	for i := range list.Entries {
		entry := &list.Entries[i]
		if last != nil {
			if old := last.Find(entry.ID); old != nil && *old == *entry {
				continue
			}
		}
		if issue.Documents[entry.Document], err = c.advisory(ctx, view, entry); err != nil {
			return nil, err
		}
	}
	return issue, c.remember(ctx, view)
}

// Remember makes an issue the last one that was seen.
func (c *Client) Remember(ctx context.Context, issue *Issue) error {
	return c.about(c.Journal.Record(ctx, c.step(issue.List)))
}

// continues refuses a list that has lost an advisory of the last one, or has an older document of it.
func continues(list, last *advisory.List) error {
	if last == nil {
		return nil
	}
	for i := range last.Entries {
		old := &last.Entries[i]
		entry := list.Find(old.ID)
		if entry == nil || entry.Bundle != old.Bundle || entry.Leaf < old.Leaf ||
			entry.Leaf == old.Leaf && *entry != *old {
			return fault.New(fault.Rollback, "the registry's list of advisories has lost %s, or goes back with it",
				old.ID).On("advisory", old.ID).On("reason", "advisory-lost").
				Because("an advisory that doesn't count any more is withdrawn, and stays in the list")
		}
	}
	return nil
}

// advisory returns the document of an entry, after the log has shown that it has it.
func (c *Client) advisory(ctx context.Context, view *View, entry *advisory.Entry) ([]byte, error) {
	wrong := func(format string, args ...any) error {
		return fault.New(fault.Integrity, "the advisory "+entry.ID+": "+format, args...).On("advisory", entry.ID).
			On("log", c.At.Log.Name).On("leaf", entry.Leaf).Try("rye docs registry-trust")
	}
	text, err := view.Entry(ctx, entry.Leaf)
	if fault.CodeOf(err) == fault.Integrity {
		return nil, fault.Of(wrong("the log doesn't have what the list says")).From(err)
	}
	if err != nil {
		return nil, err
	}
	logged, err := tlog.ParseEntry(text)
	if err != nil {
		return nil, err
	}
	if logged.Kind != tlog.Advisory || logged.Bundle != entry.Bundle || logged.Document != entry.Document {
		return nil, wrong("the log doesn't have what the list says")
	}
	document, err := c.Read(ctx, DocumentFile(entry.Document), advisory.MaxBytes)
	if err != nil {
		return nil, fault.Wrap(err, "the advisory %s: %v", entry.ID, err)
	}
	if cas.Sum(document) != entry.Document {
		return nil, wrong("its document has other bytes than the log says")
	}
	if _, err := ReadAdvisory(document, entry); err != nil {
		return nil, err
	}
	return document, nil
}

// ReadAdvisory reads the document of an entry, and compares what both say.
func ReadAdvisory(document []byte, entry *advisory.Entry) (*advisory.Advisory, error) {
	a, err := advisory.Parse(document)
	if err != nil {
		return nil, err
	}
	if a.ID != entry.ID || a.Bundle != entry.Bundle || !a.Modified.Equal(entry.Modified) {
		return nil, fault.New(fault.Integrity, "the advisory %s of %q at %s is listed as %s of %q at %s", a.ID,
			a.Bundle, a.Modified.Format(time.RFC3339), entry.ID, entry.Bundle, entry.Modified.Format(time.RFC3339)).
			On("advisory", entry.ID)
	}
	return a, nil
}

// Covering returns the advisories in force that cover a version, the worst first.
func Covering(all []*advisory.Advisory, version string) (found []*advisory.Advisory) {
	for _, a := range all {
		if a.Withdrawn.IsZero() && a.Covers(version) {
			found = append(found, a)
		}
	}
	slices.SortStableFunc(found, func(a, b *advisory.Advisory) int { return int(b.Severity) - int(a.Severity) })
	return found
}
