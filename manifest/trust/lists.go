package trust

import (
	"bytes"
	"context"
	"encoding/hex"
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
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
)

// Lists keeps the last good issue of each revocation list in a directory, with the journal of all issues seen.
type Lists struct {
	Dir   string           // the state directory
	Err   error            // why Dir is missing
	Clock func() time.Time // dates records
	Now   func() time.Time // the time that expiry counts against
	Fetch Fetch            // nil: offline
	Why   string           // the reason for being offline: "--offline"
}

// Fetch reads a document from an https address. A stranger's policy (a project's) must not make this machine call
// addresses inside its network.
type Fetch func(ctx context.Context, address string, most int64, stranger bool) ([]byte, error)

const maxList = 64 << 20

// Journal returns the memory of every list and rotation that was seen.
func (k Lists) Journal() *rollback.Journal {
	return &rollback.Journal{Path: filepath.Join(k.Dir, "rollback")}
}

// sourceOf returns the journal's name for the origin of a list: the key that the policy names for it. So another
// address does not restart a counter, but another key does.
func sourceOf(p *policy.Policy, src policy.Source) string {
	signer, _ := p.KeyNamed(src.Key)
	return "key:" + signer.Public.Fingerprint().String()
}

// path returns the file of the last good issue. Two policies that name one list by one key share it.
func (k Lists) path(p *policy.Policy, src policy.Source) string {
	sum := cas.Sum([]byte(sourceOf(p, src) + "\x00" + src.Name))
	return filepath.Join(k.Dir, "lists", hex.EncodeToString(sum[:16])+".yaml")
}

// Load returns the last good issue of each list that a policy names; it omits lists that were never fetched. A stored
// list that is damaged, or was replaced by an older one, is an error.
func (k Lists) Load(au *Authority) (map[string]*policy.List, error) {
	sources := au.Side.Policy.Sections().Lists
	if len(sources) == 0 {
		return nil, nil
	}
	if k.Err != nil {
		return nil, k.Err
	}
	lists := map[string]*policy.List{}
	for _, src := range sources {
		list, err := k.last(au.Side.Policy, src)
		if err != nil {
			// Another process may have stored a newer issue between the reads of the list and of the journal.
			list, err = k.last(au.Side.Policy, src)
		}
		if err != nil {
			return nil, fmt.Errorf("the kept revocation list %q: %w", src.Name, err)
		}
		if list != nil {
			lists[src.Name] = list
		}
	}
	return lists, nil
}

// last returns the last good issue of a list, or nil if it was never fetched.
func (k Lists) last(p *policy.Policy, src policy.Source) (*policy.List, error) {
	list, err := k.one(p, src)
	if errors.Is(err, fs.ErrNotExist) {
		err = k.neverSeen(p, src)
	}
	return list, err
}

// neverSeen returns an error if the journal knows a list that is missing: its revocations must not be forgotten.
func (k Lists) neverSeen(p *policy.Policy, src policy.Source) error {
	seen, err := k.Journal().Seen()
	for _, s := range seen {
		if s.Source == sourceOf(p, src) && s.Name == "revocations:"+src.Name {
			return fault.New(fault.Integrity, "issue %s of the revocation list %q, seen at %s, is gone", s.Position,
				src.Name, s.At.Format(time.RFC3339)).
				Because("its revocations still apply but are unknown").On("reason", "list-gone").
				On("list", src.Name)
		}
	}
	return err
}

func (k Lists) one(rules *policy.Policy, src policy.Source) (*policy.List, error) {
	file, err := os.Open(k.path(rules, src))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	doc, err := manifest.ReadRevocations(file)
	if err != nil {
		return nil, err
	}
	if err := k.Journal().Check(rollback.OfRevocations(doc, sourceOf(rules, src), k.Clock())); err != nil {
		return nil, err
	}
	signers, err := doc.Check(rules.Find)
	if err != nil {
		return nil, err
	}
	return doc.For(signers)
}

// Update fetches the current issue of a list and, if it is good, stores and returns it. changed reports that it
// differs from the last; stranger means that only a project named the source.
func (k Lists) Update(ctx context.Context, au *Authority, src policy.Source, stranger bool) (list *policy.List,
	changed bool, err error) {
	rules := au.Side.Policy
	file, err := k.fetch(ctx, au, src, stranger)
	if err != nil {
		return nil, false, err
	}
	doc, err := manifest.ReadRevocations(bytes.NewReader(file))
	if err != nil {
		return nil, false, err
	}
	if doc.List != src.Name {
		return nil, false, fault.New(fault.Integrity, "it is the list %q, not %q", doc.List, src.Name).
			On("reason", "other-document").On("expected", src.Name).On("found", doc.List)
	}
	signers, err := doc.Check(rules.Find)
	if err != nil {
		return nil, false, err
	}
	if list, err = doc.For(signers); err != nil {
		return nil, false, err
	}
	dir := filepath.Dir(k.path(rules, src))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, err
	}
	unlock, err := osfile.LockFile(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	step := rollback.OfRevocations(doc, sourceOf(rules, src), k.Clock().UTC().Truncate(time.Second))
	if err := k.Journal().Check(step); err != nil {
		return nil, false, err
	}
	last, err := k.one(rules, src)
	if err != nil {
		// The journal still knows the last counter; the stored issue is of no use.
		last = nil
	}
	if err := au.Side.Accept(list, last, k.Now()); err != nil {
		return nil, false, err
	}
	changed = last == nil || last.ID != list.ID
	if changed {
		if err := osfile.WriteFile(k.path(rules, src), 0o600, false, osfile.BytesOf(file)); err != nil {
			return nil, false, err
		}
	}
	// Record it even if it is known: the process that stored it may have died before it recorded it.
	return list, changed, k.Journal().Record(ctx, step)
}

// fetch reads a list from its source: an https address, or a path relative to the policy's directory.
func (k Lists) fetch(ctx context.Context, au *Authority, src policy.Source, stranger bool) ([]byte, error) {
	fromFile := "rye trust update " + fault.Quote(src.Name) + " --from FILE"
	switch scheme, _, ok := strings.Cut(src.From, "://"); {
	case ok && k.Fetch == nil:
		return nil, fault.New(fault.Offline, "can't fetch %q: %s", src.From, k.Why).On("url", src.From).Try(fromFile)
	case ok && scheme == "https":
		b, err := k.Fetch(ctx, src.From, maxList, stranger)
		if err == nil || errors.Is(err, context.Canceled) {
			return b, err
		}
		return nil, fault.Of(err).Try(fromFile)
	case ok:
		return nil, fault.New(fault.Config, "revocation lists are read from files and by https, not by %s", scheme).
			Because(fmt.Sprintf("%q is to be read from %q", src.Name, src.From)).Try(fromFile).On("list",
			src.Name).On("from", src.From)
	}
	path := filepath.FromSlash(src.From)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(au.Path), path)
	}
	return osfile.ReadSmall(path, maxList)
}
