package places

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
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
)

// KeptLists are the last good issues of revocation lists, in the state directory, and the journal that remembers
// which they were.
type KeptLists struct {
	a     *cli.App
	State cli.Setting
}

func Lists(a *cli.App) KeptLists { return KeptLists{a, a.Dir(cli.StatePlace)} }

const maxList = 64 << 20

func (k KeptLists) Journal() *rollback.Journal {
	return &rollback.Journal{Path: filepath.Join(k.State.Value, "rollback")}
}

// source is what the journal calls the origin of a list: the key that the policy names for it. So another address
// doesn't start a count again, and another key does.
func source(p *policy.Policy, src policy.Source) string {
	signer, _ := p.KeyNamed(src.Key)
	return "key:" + signer.Public.Fingerprint().String()
}

// path is where the last good issue is kept. Two policies that name one list by one key share it.
func (k KeptLists) path(p *policy.Policy, src policy.Source) string {
	sum := cas.Sum([]byte(source(p, src) + "\x00" + src.Name))
	return filepath.Join(k.State.Value, "lists", hex.EncodeToString(sum[:16])+".yaml")
}

// Load returns the last good issue of each list that a policy names; of a list that was never fetched there is none.
// A kept list that was exchanged for an older one, or damaged, is an error.
func (k KeptLists) Load(au *Authority) (map[string]*policy.List, error) {
	sources := au.Side.Policy.Sections().Lists
	if len(sources) == 0 {
		return nil, nil
	}
	if k.State.Err != nil {
		return nil, k.State.Err
	}
	lists := map[string]*policy.List{}
	for _, src := range sources {
		list, err := k.last(au.Side.Policy, src)
		if err != nil {
			// Another process may have taken a newer issue after the look at the list, and before that at the journal.
			list, err = k.last(au.Side.Policy, src)
		}
		if err != nil {
			f := classify.Classify(fmt.Errorf("the kept revocation list %q: %w", src.Name, err))
			if _, lost := errors.AsType[*rollback.DamagedError](err); !lost { // with the memory gone an update is refused too
				f.Hint = []string{"rye trust update"}
			}
			return nil, f
		}
		if list != nil {
			lists[src.Name] = list
		}
	}
	return lists, nil
}

// last returns the last good issue of a list, nil if it was never fetched.
func (k KeptLists) last(p *policy.Policy, src policy.Source) (*policy.List, error) {
	list, err := k.one(p, src)
	if errors.Is(err, fs.ErrNotExist) {
		err = k.neverSeen(p, src)
	}
	return list, err
}

// neverSeen returns an error if a list that isn't there was: what it revoked must not be forgotten with it.
func (k KeptLists) neverSeen(p *policy.Policy, src policy.Source) error {
	seen, err := k.Journal().Seen()
	for _, s := range seen {
		if s.Source == source(p, src) && s.Name == "revocations:"+src.Name {
			return &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("issue %s of the revocation list %q, seen at %s, is gone", s.Position, src.Name, s.At.Format(time.RFC3339)),
				Why: []string{"what it revoked is revoked, and nobody can tell what that was"}, Details: map[string]any{"reason": "list-gone", "list": src.Name}}
		}
	}
	return err
}

func (k KeptLists) one(p *policy.Policy, src policy.Source) (*policy.List, error) {
	file, err := os.Open(k.path(p, src))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	doc, err := manifest.ReadRevocations(file)
	if err != nil {
		return nil, err
	}
	if err := k.Journal().Check(rollback.OfRevocations(doc, source(p, src), k.a.Clock())); err != nil {
		return nil, err
	}
	signers, err := doc.Check(p.Find)
	if err != nil {
		return nil, err
	}
	return doc.For(signers)
}

// Update takes the issue that a list's source has now, if it is good, and returns it. changed says that it is
// another than the last; stranger, that the user named the source nowhere.
func (k KeptLists) Update(ctx context.Context, au *Authority, src policy.Source, stranger bool) (list *policy.List, changed bool, err error) {
	p := au.Side.Policy
	file, err := k.fetch(ctx, au, src, stranger)
	if err != nil {
		return nil, false, err
	}
	doc, err := manifest.ReadRevocations(bytes.NewReader(file))
	if err != nil {
		return nil, false, err
	}
	if doc.List != src.Name {
		return nil, false, &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("it is the list %q, not %q", doc.List, src.Name),
			Details: map[string]any{"reason": "other-document", "expected": src.Name, "found": doc.List}}
	}
	signers, err := doc.Check(p.Find)
	if err != nil {
		return nil, false, err
	}
	if list, err = doc.For(signers); err != nil {
		return nil, false, err
	}
	dir := filepath.Dir(k.path(p, src))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, err
	}
	unlock, err := osfile.LockFile(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	step := rollback.OfRevocations(doc, source(p, src), k.a.Clock().UTC().Truncate(time.Second))
	if err := k.Journal().Check(step); err != nil {
		return nil, false, err
	}
	last, err := k.one(p, src)
	if err != nil {
		// The journal still knows the last count; what is kept of it is of no use.
		last = nil
	}
	if err := au.Side.Accept(list, last, k.a.Now()); err != nil {
		return nil, false, err
	}
	changed = last == nil || last.ID != list.ID
	if changed {
		if err := osfile.WriteFile(k.path(p, src), 0o600, false, osfile.BytesOf(file)); err != nil {
			return nil, false, err
		}
	}
	// Also of the same issue: whoever wrote that may not have come to remember it.
	return list, changed, k.Journal().Record(ctx, step)
}

// fetch reads a list from its source: an https address, or a path, which counts from the policy's directory. Whoever
// wrote a project has the user's machine ask nobody on the inside of its network.
func (k KeptLists) fetch(ctx context.Context, au *Authority, src policy.Source, stranger bool) ([]byte, error) {
	otherMeans := "rye trust update " + fault.Quote(src.Name) + " --from FILE"
	switch scheme, _, ok := strings.Cut(src.From, "://"); {
	case ok && k.a.IsOffline():
		return nil, &fault.Error{Code: fault.Offline, Text: fmt.Sprintf("%q can't be asked: %s", src.From, k.a.Offline().Origin), Hint: []string{otherMeans},
			Details: map[string]any{"url": src.From}}
	case ok && scheme == "https":
		file, err := getSmall(ctx, k.a, src.From, maxList, stranger)
		if err == nil || errors.Is(err, context.Canceled) {
			return file, err
		}
		f := classify.Classify(err)
		f.Hint = append(f.Hint, otherMeans)
		if refused, ok := errors.AsType[*web.RefusedError](err); ok && stranger && refused.Reason == web.Inside {
			f.Why = []string{"the project's policy names it, which may send rye to no inside; what the user's own policy names may be there"}
		}
		return nil, f
	case ok:
		return nil, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("this rye reads revocation lists from files and by https, and not by %s", scheme),
			Why:  []string{fmt.Sprintf("%q is to be read from %q", src.Name, src.From)},
			Hint: []string{otherMeans}, Details: map[string]any{"list": src.Name, "from": src.From}}
	}
	path := filepath.FromSlash(src.From)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(au.Path), path)
	}
	return osfile.ReadSmall(path, maxList)
}
