package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// Kept is the last good issue of each registry's advisories, in a directory of the user's state:
//
//	DIR/HASH/registry.json     the registry: {"url":"https://…","log":"…","key":"…"}
//	DIR/HASH/advisories.yaml   the list, as the registry has signed it
//	DIR/HASH/documents/HEX     the advisories
//
// The list is written after its documents, so that it names only what is there.
type Kept struct {
	Dir     string
	Journal *rollback.Journal
	Now     func() time.Time
}

// A Feed is a registry's advisories as they were kept. It is immutable.
type Feed struct {
	*advisory.List
	At  project.Registry // without names
	dir string
}

// keptSource is the content of registry.json.
type keptSource struct {
	URL string `json:"url"`
	Log string `json:"log"`
	Key string `json:"key"`
}

const sourceFile = "registry.json"

func (k *Kept) dirOf(url string) string {
	return filepath.Join(k.Dir, hex(cas.Sum([]byte(url)))[:32])
}

// Source returns a registry by its address, with the keys by which its advisories were read; fs.ErrNotExist if they
// never were.
func (k *Kept) Source(url string) (*project.Registry, error) { return k.source(k.dirOf(url)) }

func (k *Kept) source(dir string) (*project.Registry, error) {
	path := filepath.Join(dir, sourceFile)
	b, err := osfile.ReadSmall(path, MaxDescription)
	if err != nil {
		return nil, err
	}
	var source keptSource
	at := &project.Registry{}
	if err = json.Unmarshal(b, &source); err == nil {
		if at.Log, err = tlog.ParseKey(source.Log); err == nil {
			at.Key, err = key.ParsePublic(source.Key)
		}
	}
	if at.URL = source.URL; err == nil && k.dirOf(at.URL) != dir {
		err = errors.New("it is about another registry")
	}
	if err != nil {
		return nil, damaged(path, err)
	}
	return at, nil
}

func damaged(path string, err error) error {
	return fault.New(fault.Integrity, "%q can't be read: %v", path, err).From(err).On("path", path).
		Try("rye trust update")
}

// client returns a client of a registry that reads nothing from it.
func (k *Kept) client(at *project.Registry) *Client {
	return &Client{At: *at, Journal: k.Journal, Now: k.Now}
}

// Load returns the advisories of a registry by its address, as they were read last. If they never were, the error is
// fs.ErrNotExist. A list that is damaged, that was replaced by an older one, or that is gone is another error.
func (k *Kept) Load(url string) (*Feed, error) {
	feed, err := k.load(k.dirOf(url))
	if err == nil {
		return feed, nil
	}
	// Another process may have kept a newer issue meanwhile.
	if feed, err = k.load(k.dirOf(url)); errors.Is(err, fs.ErrNotExist) {
		return nil, k.neverSeen(url, err)
	}
	return feed, err
}

func (k *Kept) load(dir string) (*Feed, error) {
	at, err := k.source(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, AdvisoriesFile)
	text, err := osfile.ReadSmall(path, advisory.MaxList)
	if err != nil {
		return nil, err
	}
	client := k.client(at)
	list, err := client.ParseAdvisories(text)
	if err != nil {
		return nil, damaged(path, err)
	}
	if err := k.Journal.Check(client.step(list)); err != nil {
		return nil, err
	}
	return &Feed{list, *at, dir}, nil
}

// neverSeen returns err, or an error if the journal knows advisories that are missing: they must not be forgotten.
func (k *Kept) neverSeen(url string, err error) error {
	seen, failed := k.Journal.Seen()
	if failed != nil {
		return failed
	}
	for _, s := range seen {
		if s.Source == url && strings.HasPrefix(s.Name, "advisories:") {
			return fault.New(fault.Integrity, "issue %s of the advisories of %q, seen at %s, is gone", s.Position, url,
				s.At.Format(time.RFC3339)).On("registry", url).On("reason", "advisories-gone").Try("rye trust update")
		}
	}
	return err
}

// All returns the advisories of every registry that were read.
func (k *Kept) All() (all []*Feed, err error) {
	dirs, err := os.ReadDir(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		feed, err := k.load(filepath.Join(k.Dir, dir.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a first update that was interrupted
		}
		if err != nil {
			return nil, err
		}
		all = append(all, feed)
	}
	return all, err
}

// Of returns the advisories about a bundle.
func (f *Feed) Of(bundle string) (all []*advisory.Advisory, err error) {
	for _, entry := range f.List.Of(bundle) {
		path := filepath.Join(f.dir, filepath.FromSlash(DocumentFile(entry.Document)))
		text, err := osfile.ReadSmall(path, advisory.MaxBytes)
		if err == nil && cas.Sum(text) != entry.Document {
			err = errors.New("its bytes have changed")
		}
		if err != nil {
			return nil, damaged(path, err)
		}
		a, err := ReadAdvisory(text, &entry)
		if err != nil {
			return nil, damaged(path, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// Update reads the advisories of a registry and keeps them. changed reports whether they differ from the last ones. An
// error leaves the last good issue in force.
func (k *Kept) Update(ctx context.Context, client *Client) (feed *Feed, changed bool, err error) {
	dir := k.dirOf(client.At.URL)
	if err := os.MkdirAll(filepath.Join(dir, "documents"), 0o700); err != nil {
		return nil, false, err
	}
	unlock, err := osfile.LockFile(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	same, err := k.sameSource(dir, &client.At)
	if err != nil {
		return nil, false, err
	}
	last, err := k.load(dir)
	known := (*advisory.List)(nil)
	if err == nil && last.complete() {
		known = last.List
	}
	issue, err := client.Advisories(ctx, known)
	if err != nil {
		return nil, false, err
	}
	for digest, text := range issue.Documents {
		path := filepath.Join(dir, filepath.FromSlash(DocumentFile(digest)))
		if err := osfile.WriteFile(path, 0o600, false, osfile.BytesOf(text)); err != nil {
			return nil, false, err
		}
	}
	if changed = known == nil || known.ID != issue.ID; changed || !same {
		source, err := json.Marshal(keptSource{client.At.URL, client.At.Log.String(), client.At.Key.String()})
		if err != nil {
			return nil, false, err
		}
		for _, file := range []struct {
			name string
			text []byte
		}{{sourceFile, append(source, '\n')}, {AdvisoriesFile, issue.Text}} {
			if err := osfile.WriteFile(filepath.Join(dir, file.name), 0o600, false,
				osfile.BytesOf(file.text)); err != nil {
				return nil, false, err
			}
		}
	}
	if err := client.Remember(ctx, issue); err != nil {
		return nil, false, err
	}
	feed = &Feed{issue.List, client.At, dir}
	if changed {
		feed.sweep(known)
	}
	return feed, changed, nil
}

// sameSource refuses other keys for a registry than those by which its advisories were read before, unless its log has
// another key since, which the user follows. same reports whether they are the same.
func (k *Kept) sameSource(dir string, at *project.Registry) (same bool, err error) {
	old, err := k.source(dir)
	if err != nil || old.Log == at.Log && old.Key == at.Key {
		return true, nil // a damaged file is written again, once the list is verified
	}
	if old.Log.Name == at.Log.Name && old.Key == at.Key {
		if _, id, err := lastKey(k.Journal, at.Log.Name); err != nil || id == keyID(at.Log) {
			return false, err
		}
	}
	return false, fault.New(fault.Rollback, "the registry %q has other keys than before", at.URL).
		On("registry", at.URL).Because(fmt.Sprintf("before  log %s, key %s", old.Log, old.Key),
		fmt.Sprintf("now     log %s, key %s", at.Log, at.Key)).Try("rye docs registry-trust")
}

// complete reports whether all documents can be read.
func (f *Feed) complete() bool {
	for i := range f.Entries {
		path := filepath.Join(f.dir, filepath.FromSlash(DocumentFile(f.Entries[i].Document)))
		if text, err := osfile.ReadSmall(path, advisory.MaxBytes); err != nil ||
			cas.Sum(text) != f.Entries[i].Document {
			return false
		}
	}
	return true
}

// sweep removes documents that neither this list names nor the last one, which other processes may be reading. What it
// can't remove does no harm.
func (f *Feed) sweep(last *advisory.List) {
	named := map[string]bool{}
	for _, list := range []*advisory.List{f.List, last} {
		if list == nil {
			continue
		}
		for i := range list.Entries {
			named[filepath.Base(DocumentFile(list.Entries[i].Document))] = true
		}
	}
	files, err := os.ReadDir(filepath.Join(f.dir, "documents"))
	if err != nil {
		return
	}
	for _, file := range files {
		if !named[file.Name()] {
			_ = os.Remove(filepath.Join(f.dir, "documents", file.Name()))
		}
	}
}
