package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// revocations is an index of revoked keys and digests.
type revocations struct {
	keys    map[key.Fingerprint]*Revocation
	digests map[cas.Digest]*Revocation
}

func newRevocations(all []Revocation) revocations {
	r := revocations{map[key.Fingerprint]*Revocation{}, map[cas.Digest]*Revocation{}}
	for i := range all {
		if one := &all[i]; one.Key.IsZero() {
			r.digests[one.Digest] = one
		} else {
			r.keys[one.Key] = one
		}
	}
	return r
}

const keyPrefix = "key:"

// ParseRevocation reads the subject of a revocation, in the one form of policies and lists: "key:" and a key's
// fingerprint, or a digest.
func ParseRevocation(what string) (Revocation, error) {
	if text, ok := strings.CutPrefix(what, keyPrefix); ok {
		f, err := key.ParseFingerprint(text)
		if err == nil && !f.IsZero() {
			return Revocation{Key: f}, nil
		}
	}
	d, err := cas.ParseDigest(what)
	if err == nil && !d.IsZero() {
		return Revocation{Digest: d}, nil
	}
	return Revocation{}, errRevocation
}

var errRevocation = errors.New(
	`expected "key:" and the 64 digits of a fingerprint, or "blake3:" and the 64 digits of a digest`)

// What returns the form that ParseRevocation reads.
func (r Revocation) What() string {
	if !r.Key.IsZero() {
		return keyPrefix + r.Key.String()
	}
	return r.Digest.String()
}

// A List is one issue of a signed revocation list. Its reader (package manifest) has verified Signers.
type List struct {
	ID      cas.Digest // of the document
	Name    string
	Counter int64 // grows with every issue
	Issued  time.Time
	Expires time.Time
	Signers []sign.Signer

	revoked revocations
}

// maxCounter is the largest number that every JSON reader keeps exact.
const maxCounter = 1<<53 - 1

// NewList returns list with its entries, or an error for an invalid list.
func NewList(list List, entries []Revocation) (*List, error) {
	switch {
	case list.Counter < 1 || list.Counter > maxCounter:
		return nil, fmt.Errorf("revocation list %q: counter %d is not between 1 and %d", list.Name, list.Counter,
			int64(maxCounter))
	case list.Issued.IsZero() || !list.Issued.Before(list.Expires):
		return nil, fmt.Errorf("revocation list %q: expires before it is issued", list.Name)
	}
	for _, e := range entries {
		if e.Key.IsZero() == e.Digest.IsZero() {
			return nil, fmt.Errorf("revocation list %q: an entry revokes one key or one digest", list.Name)
		}
	}
	list.revoked = newRevocations(entries)
	return &list, nil
}

// signedBy reports whether a key made one of the signatures under l. The first format has no names and so no lists.
func (l *List) signedBy(k key.Public) bool {
	return slices.ContainsFunc(l.Signers, func(s sign.Signer) bool { return s.Key == k && s.Format == sign.V2 })
}

const (
	// maxJump limits the increase of a counter, so that one bad issue does not use it up.
	maxJump = 1 << 20
	// maxAhead is the tolerated lead of another clock.
	maxAhead = 10 * time.Minute
)

// Accept returns nil if next may replace last, side's issue of the list, or nil without one. It must be signed by the
// key that the policy names, be fresh, and be neither older than last nor a different issue with the same counter. If
// last is signed by another key than the policy names now, it does not bind: after a counter was driven too high, the
// user restarts it by naming a new key. The reason in a refusal's details is a Code.
func (s *Side) Accept(next, last *List, now time.Time) error {
	i := slices.IndexFunc(s.Policy.sections.Lists, func(src Source) bool { return src.Name == next.Name })
	if i < 0 {
		return fault.New(fault.Policy, "the policy does not name this revocation list").On("reason", "list-not-named")
	}
	src := s.Policy.sections.Lists[i]
	bad := func(code Code, format string, args ...any) error {
		return fault.New(code.Fault(), "revocation list %q: %s", next.Name, fmt.Sprintf(format, args...)).On("reason",
			code.String()).On("list", next.Name)
	}
	k, _ := s.Policy.KeyNamed(src.Key)
	if !next.signedBy(k.Public) {
		return bad(UntrustedKey, "is not signed by %q, the key that the policy names for it", src.Key)
	}
	if why := s.KeyFault(k, now); why != Admitted {
		return bad(why, "its key %q: %s", src.Key, why.words())
	}
	if why := stale(src, next, now); why != "" {
		return bad(ListStale, "%s", why)
	}
	if last == nil || !last.signedBy(k.Public) {
		return nil
	}
	switch {
	case next.Counter < last.Counter:
		return bad(ListOlder, "issue %d is older than the last one seen, %d", next.Counter, last.Counter)
	case next.Counter == last.Counter && next.ID != last.ID:
		return bad(ListForked, "issue %d differs from the issue %d seen before", next.Counter,
			last.Counter)
	case next.Counter-last.Counter > maxJump:
		return bad(ListJump,
			"issue %d is too far ahead of issue %d; to start again, name a new key for the list", next.Counter,
			last.Counter)
	}
	return nil
}

// stale returns why a list can't be used now, or "". Its age counts from its signed time of issue, not from its
// arrival.
func stale(src Source, l *List, now time.Time) string {
	switch {
	case l == nil:
		return "was never fetched"
	case l.Issued.After(now.Add(maxAhead)):
		return fmt.Sprintf("was issued in the future, at %s: check the clock, which says %s", clock(l.Issued),
			clock(now))
	case !now.Before(l.Expires):
		return fmt.Sprintf("expired at %s; the clock says %s", clock(l.Expires), clock(now))
	case now.Sub(l.Issued) > src.MaxAge:
		return fmt.Sprintf("was issued at %s, longer ago than %s; the clock says %s", clock(l.Issued),
			yamltree.AgeText(src.MaxAge), clock(now))
	}
	return ""
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
