package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// TestOwnedBy: an item is the user's own if one of their keys admits it, or the binary has it. A stranger's item would
// run with all that it declares otherwise.
func TestOwnedBy(t *testing.T) {
	mine := func(f key.Fingerprint) bool { return f == pub(1).Fingerprint() }
	verdict := func(seed byte, c Code) Verdict { return Verdict{Key: pub(seed).Fingerprint(), Code: c} }
	for name, c := range map[string]struct {
		answer Answer
		own    func(key.Fingerprint) bool
		want   bool
	}{
		"builtin":               {Answer{Voucher: Builtin}, nil, true},
		"mine":                  {Answer{Signers: []Verdict{verdict(2, Admitted), verdict(1, Admitted)}}, mine, true},
		"mine, expired":         {Answer{Signers: []Verdict{verdict(2, Admitted), verdict(1, Expired)}}, mine, false},
		"another's":             {Answer{Signers: []Verdict{verdict(2, Admitted)}}, mine, false},
		"unsigned":              {Answer{ByDigest: true}, mine, false},
		"of a user without key": {Answer{Signers: []Verdict{verdict(1, Admitted)}}, nil, false},
	} {
		if got := c.answer.OwnedBy(c.own); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDecideAlone: a request needs one digest, a known purpose, and of two signatures of one key the one that counts.
// What is only evidence needs one key, whatever the threshold is.
func TestDecideAlone(t *testing.T) {
	root := Side{Policy: mustParse(t, rootText)}
	legacy := Request{Name: "tool:acme/legacy/x", Raw: digest("raw")}
	signed := func(r Request, all ...[]sign.Signer) Request { r.Signers = slices.Concat(all...); return r }
	two := Request{Name: "tool:acme/x", Raw: digest("raw"), Signers: v2(1)}
	none := signers(sign.None, []byte{2})
	evidence := two
	evidence.Evidence = true
	for name, c := range map[string]struct {
		request Request
		code    Code
	}{
		"a document alone":    {Request{Name: "bundle:x@1", Document: digest("pinned")}, Admitted},
		"no digest":           {Request{Name: "bundle:x@1"}, BadRequest},
		"unknown purpose":     {Request{Name: "tool:x", Raw: digest("raw"), Purpose: 9}, BadRequest},
		"both formats":        {signed(legacy, v2(2), v1(2)), Admitted},
		"first one, then two": {signed(legacy, v1(2), v2(2)), Admitted},
		"the graver":          {signed(legacy, v1(2), none), max(EvidenceOnly, FormatNotAccepted)},
		"the graver first":    {signed(legacy, none, v1(2)), max(EvidenceOnly, FormatNotAccepted)},
		"one of two":          {two, BelowThreshold},
		"one, as evidence":    {evidence, Admitted},
	} {
		c.request.Now = noon
		d := Decide(c.request, root, nil)
		if d.Code != c.code || len(d.Signers) > 1 {
			t.Errorf("%s: %v, signed by %v", name, d.Code, d.Signers)
		}
	}
}

// TestMayHaveName: what isn't a name gets no secret, even if the policy gives it to all.
func TestMayHaveName(t *testing.T) {
	p := mustParse(t, "exec: {secrets: {token: [\"**\"]}}\n")
	for item, want := range map[string]bool{"tool:acme/x": true, "acme/x": false, "": false, "tool:../x": false} {
		if MayHave("token", item, p, nil) != want {
			t.Errorf("%q: %t", item, !want)
		}
	}
}

// TestRotateKnownKey: the dates of the policy for a key apply, not those that a document gives it; and a document
// names each key of the rule once. An expired key would come back, or a step be taken from a rule that has other keys.
func TestRotateKnownKey(t *testing.T) {
	side := Side{Policy: mustParse(t, rootText)}
	before := func(seeds ...byte) (all []key.Fingerprint) {
		for _, s := range seeds {
			all = append(all, pub(s).Fingerprint())
		}
		return all
	}
	step := func(fresh byte, b ...byte) Rotation {
		return Rotation{Rule: "acme/**", Before: before(b...), Retire: pub(2).Fingerprint(),
			Key: Key{Name: "fresh", Public: pub(fresh)}, Expires: noon.Add(time.Hour)}
	}
	for name, c := range map[string]struct {
		step Rotation
		code Code
	}{
		"a new key":             {step(9, 1, 2), Admitted},
		"one that has expired":  {step(3, 1, 2), Expired},
		"one that is revoked":   {step(5, 1, 2), KeyRevoked},
		"one that begins later": {step(4, 1, 2), NotYetValid},
		"a key twice":           {step(9, 1, 1), NoRule},
		"a key too many":        {step(9, 1, 2, 2), NoRule},
	} {
		all := v2(1, 2, 3, 4, 5, 9)
		_, err := side.Rotate(c.step, all, noon)
		answer := side.DecideRotation(c.step, all, nil, noon)
		if answer.Code != c.code || (err == nil) != answer.Allowed {
			t.Errorf("%s: %v, %v", name, answer.Code, err)
		}
	}
}

// TestListJump: a list's counter may grow by 2^20 at once. A greater jump could use all counters up, so that no later
// list revokes anything.
func TestListJump(t *testing.T) {
	side := Side{Policy: mustParse(t, listText)}
	issue := func(counter int64) *List {
		return mustList(t, List{Name: "acme", Counter: counter, Issued: noon.Add(-time.Hour),
			Expires: noon.Add(time.Hour), Signers: v2(3)})
	}
	for from, to := range map[int64]int64{7: 7 + maxJump, 1: 2} {
		if err := side.Accept(issue(to), issue(from), noon); err != nil {
			t.Errorf("from %d to %d: %v", from, to, err)
		}
	}
	if err := side.Accept(issue(8+maxJump), issue(7), noon); err == nil ||
		!strings.Contains(err.Error(), "too far ahead") {
		t.Error(err)
	}
	if _, err := NewList(List{Name: "acme", Counter: 1, Expires: noon}, nil); err == nil {
		t.Error("a list without a time")
	}
}
