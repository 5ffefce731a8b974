package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/rollback"
)

// CheckOnce returns an error for a rotation that was applied before.
func (k Lists) CheckOnce(s rollback.Step) error {
	if k.Err != nil {
		return k.Err
	}
	return k.Journal().CheckOnce(s)
}

// Once records a rotation, so that it is never applied again.
func (k Lists) Once(ctx context.Context, s rollback.Step) error {
	if k.Err != nil {
		return k.Err
	}
	return k.Journal().Once(ctx, s)
}

// RotationStep returns the journal's record of a rotation in this policy. Other policies may still apply the same
// document.
func (au *Authority) RotationStep(name string, id cas.Digest, at time.Time) rollback.Step {
	path := au.Path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return rollback.Step{Source: "policy:" + strings.ToValidUTF8(path, "?"), Name: name, ID: id, At: at}
}

// rotationOffer is how long a rotation can be applied, and so how long the journal must remember it.
const rotationOffer = 90 * 24 * time.Hour

// A Handover describes the replacement of a key by a rotation.
type Handover struct {
	Old     key.Public
	Kept    string    // the name of the old key in the user's directory of keys
	Rule    string    // the glob of the rule; empty for the only one that names the key
	To      string    // the name of the new key; empty for the first free one
	Expires time.Time // of the new key; zero for never
}

// Plan returns the rotation, without the new key, and how many other keys of the rule must sign it. entries are the
// user's keys, whose names are taken.
func (h Handover) Plan(s policy.Side, entries []key.Entry, now time.Time) (step policy.Rotation, others int,
	err error) {
	terms := s.Policy
	known, ok := terms.Key(h.Old.Fingerprint())
	rules := terms.RulesNaming(known.Name)
	switch {
	case !ok || len(rules) == 0:
		return step, 0,
			fault.New(fault.NotFound, "no rule of the policy names the key %q: there is nothing to take over",
				h.Kept).Try(fault.Command("rye key new", key.Next(h.Kept)))
	case h.Rule == "" && len(rules) > 1:
		return step, 0, fault.New(fault.Ambiguous, "%d rules name the key %q, and each needs a rotation of its own",
			len(rules), h.Kept).
			Because(rules...).Try("rye key rotate " + fault.Quote(h.Kept) + " --rule " + fault.Quote(rules[0]))
	case h.Rule == "":
		h.Rule = rules[0]
	case !slices.Contains(rules, h.Rule):
		return step, 0, fault.New(fault.NotFound, "no rule %q of the policy names the key %q", h.Rule,
			h.Kept).Because(rules...)
	}
	step = policy.Rotation{Rule: h.Rule, Retire: h.Old.Fingerprint(),
		Key:     policy.Key{Name: h.To, Owner: known.Owner, Expires: h.Expires},
		Expires: now.UTC().Truncate(time.Second).Add(rotationOffer)}
	for _, r := range terms.Sections().Rules {
		if r.Glob != h.Rule {
			continue
		}
		others = r.Threshold
		for _, name := range r.Keys {
			k, _ := terms.KeyNamed(name)
			step.Before = append(step.Before, k.Public.Fingerprint())
		}
	}
	expired := !known.Expires.IsZero() && !now.Before(known.Expires)
	revoked := slices.ContainsFunc(terms.Sections().Revoked, func(r policy.Revocation) bool {
		return r.Key == h.Old.Fingerprint()
	})
	switch {
	case !expired && !revoked:
		others-- // the old key signs
	case len(step.Before)-1 < others:
		return step, 0, h.tooLate(known, revoked) // the other keys can't reach the threshold
	}
	for i := 2; step.Key.Name == ""; i++ {
		name := fmt.Sprintf("%s-%d", h.Kept, i)
		if !isTaken(terms, name) && !slices.ContainsFunc(entries, func(e key.Entry) bool { return e.Name == name }) {
			step.Key.Name = name
		}
	}
	return step, others, key.CheckName(step.Key.Name)
}

// tooLate returns the error about replacing a key that can no longer sign.
func (h Handover) tooLate(k policy.Key, revoked bool) error {
	f := fault.New(fault.Expired, "the key %q expired on %s: it can no longer be replaced by a rotation", h.Kept,
		yamltree.DateText(k.Expires))
	if revoked {
		f.Code, f.Text = fault.Revoked,
			fmt.Sprintf("the key %q is revoked: it can no longer be replaced by a rotation", h.Kept)
	}
	next := key.Next(h.Kept)
	return f.Because("give everyone who trusts it a new key, as they were given this one").
		Try(fault.Command("rye key new", next),
			"rye key export "+next+" > "+next+".pem", fault.Command("rye trust add", next+".pem", "--owner",
				cmp.Or(k.Owner, next), "--names", h.Rule))
}

// Document returns the rotation to a new key, signed by the old and the new one, and its id.
func (h Handover) Document(step policy.Rotation, old, fresh key.Private, at time.Time) ([]byte, cas.Digest, error) {
	step.Key.Public = fresh.Public()
	body, doc, err := manifest.AppendRotation(nil, step)
	if err != nil {
		return nil, cas.Digest{}, err
	}
	for _, k := range []key.Private{old, fresh} {
		if err := doc.Sign(k, at.UTC().Truncate(time.Second)); err != nil {
			return nil, cas.Digest{}, err
		}
	}
	return manifest.Join(nil, body, doc.Signatures), doc.ID, nil
}

// Rotation returns the edit that applies a rotation document to the root policy at path, once. file names the document
// in messages.
func (k Lists) Rotation(ctx context.Context, doc *manifest.Rotation, path, file string) Edit {
	var taken rollback.Step
	return Edit{
		Change: func(root *policy.Side) (*policy.Policy, error) {
			signers, err := admission.CheckRotation(doc, root.Policy)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", file, err)
			}
			au := &Authority{Side: *root, Path: path}
			if root.Lists, err = k.Load(au); err != nil {
				return nil, err
			}
			after, err := root.Rotate(doc.Step, signers, k.Now().UTC())
			if short, ok := errors.AsType[*policy.RotationError](err); ok && short.Code == policy.BelowThreshold {
				f := fault.Of(err)
				f.Hint = []string{"rye sign " + fault.Quote(file) + " --as " + fault.Quote(doc.Name) + " --key OTHER"}
				return nil, f
			}
			if err != nil {
				return nil, err
			}
			// A rule may return to the keys that a rotation began with. The rotation isn't applied again.
			taken = au.RotationStep(doc.Name, doc.ID, k.Now())
			return after, k.CheckOnce(taken)
		},
		// Recorded before the policy is written: otherwise a crash would let the same rotation be applied twice.
		Commit: func() error { return k.Once(ctx, taken) },
	}
}
