package policy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

const editText = `rye: policy/2

# people
keys:
  # the boss
  a: {key: "$key1", owner: Alice}  # hers
  # the helper
  b: {key: "$key2", owner: Bob}

  # old hand
  c: {key: "$key3"}

names:
  # everything
  "**": {keys: [a, b]}  # but
  "acme/**":
    keys:
      - a  # first
      - b  # second
    # both
    threshold: 2

# the end
`

func edited(t *testing.T, e *Policy, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	checkStable(t, e)
	if e.ID() != cas.Sum(e.Format()) {
		t.Error("the id is not that of what is to be written")
	}
	return string(e.Format())
}

func changes(before, after *Policy) string {
	var b strings.Builder
	for _, c := range Diff(before, after) {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

func TestEdits(t *testing.T) {
	p := mustParse(t, editText)
	for _, c := range []struct {
		name          string
		edit          func() (*Policy, error)
		before, after string // what is replaced in the text
		changes       string
	}{
		{"add a key", func() (*Policy, error) {
			return p.AddKey(Key{Name: "d", Public: pub(4), Owner: "Dave", Expires: noon}, false)
		}, "  c: {key: \"$key3\"}\n",
			"  c: {key: \"$key3\"}\n  d: {key: \"$key4\", owner: Dave, expires: \"2026-11-20T12:00:00Z\"}\n",
			"+ keys d expires: 2026-11-20T12:00:00Z\n+ keys d key: $key4\n+ keys d owner: Dave\n"},
		{"add a rule", func() (*Policy, error) {
			return p.SetRule(Rule{Glob: "tool:x/*", Keys: []string{"c"}, Threshold: 1, V1: true,
				Except: []string{"x/y"}})
		}, "    threshold: 2\n", "    threshold: 2\n  \"tool:x/*\": {keys: [c], accept: [v1, v2], except: [x/y]}\n",
			"+ names \"tool:x/*\" accept: [v1, v2]\n+ names \"tool:x/*\" except: [x/y]\n+ names \"tool:x/*\" keys: [c]\n+ names \"tool:x/*\" threshold: 1\n"},
		{"change a rule", func() (*Policy, error) {
			return p.SetRule(Rule{Glob: "acme/**", Keys: []string{"b", "c", "a"}, Threshold: 3})
		}, "      - a  # first\n      - b  # second\n    # both\n    threshold: 2\n",
			"      - b  # second\n      - c\n      - a  # first\n    # both\n    threshold: 3\n",
			"~ names \"acme/**\" keys: [a, b] -> [a, b, c]\n~ names \"acme/**\" threshold: 2 -> 3\n"},
		{"change an end", func() (*Policy, error) { return p.SetDates("c", time.Time{}, noon) },
			"  c: {key: \"$key3\"}\n", "  c: {key: \"$key3\", expires: \"2026-11-20T12:00:00Z\"}\n",
			"+ keys c expires: 2026-11-20T12:00:00Z\n"},
		{"set an owner", func() (*Policy, error) { return p.SetOwner("c", "Cleo") },
			"  c: {key: \"$key3\"}\n", "  c: {key: \"$key3\", owner: Cleo}\n", "+ keys c owner: Cleo\n"},
		{"revoke a key", func() (*Policy, error) {
			return p.Revoke(Revocation{Key: pub(2).Fingerprint(), Reason: "stolen",
				Date: noon.Truncate(24 * time.Hour)})
		}, "\n# the end\n", "\nrevoked:\n  \"key:$print2\": {reason: stolen, date: \"2026-11-20\"}\n\n# the end\n",
			"+ revoked \"key:$print2\": revoked\n+ revoked \"key:$print2\" date: 2026-11-20\n+ revoked \"key:$print2\" reason: stolen\n"},
		{"admit a digest", func() (*Policy, error) {
			return p.change(func(root *yamltree.Node) {
				root.Entry("digests", order...).Entry(digest("x").String()).SetText("as", "tool:x")
			})
		}, "\n# the end\n", "\ndigests:\n  \"$digest(x)\": {as: \"tool:x\"}\n\n# the end\n",
			"+ digests \"$digest(x)\": admitted\n+ digests \"$digest(x)\" as: \"tool:x\"\n"},
		{"remove a key", func() (*Policy, error) { return p.RemoveKey("c") },
			"\n  # old hand\n  c: {key: \"$key3\"}\n", "", "- keys c key: $key3\n"},
		{"remove a rule", func() (*Policy, error) { return p.Remove("names", "**") },
			"  # everything\n  \"**\": {keys: [a, b]}  # but\n", "",
			"- names \"**\" accept: [v2]\n- names \"**\" keys: [a, b]\n- names \"**\" threshold: 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := c.edit()
			got := edited(t, e, err)
			want := strings.Replace(fill(editText), fill(c.before), fill(c.after), 1)
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if got := changes(p, e); got != fill(c.changes) {
				t.Errorf("changes:\n%s\nwant:\n%s", got, fill(c.changes))
			}
			if string(p.Format()) != fill(editText) {
				t.Fatal("the policy that was edited changed")
			}
		})
	}
}

func TestEditsRefused(t *testing.T) {
	p := mustParse(t, editText+
		"revoked:\n  \"key:$print2\": {}\n  \"key:$print5\": {}\nlists:\n  l: {from: x, key: c, max-age: 1d}\n")
	for name, edit := range map[string]func() (*Policy, error){
		"a name twice": func() (*Policy, error) {
			return p.AddKey(Key{Name: "a", Public: pub(1)}, true)
		},
		"an end before it begins": func() (*Policy, error) { return p.SetDates("a", noon, noon) },
		"an owner of no key":      func() (*Policy, error) { return p.SetOwner("z", "Zoe") },
		"an end of no key":        func() (*Policy, error) { return p.SetDates("z", noon, time.Time{}) },
		"an end of a revoked key": func() (*Policy, error) { return p.SetDates("b", noon, time.Time{}) },
		"a key twice": func() (*Policy, error) {
			return p.AddKey(Key{Name: "z", Public: pub(1)}, true)
		},
		"a revoked key": func() (*Policy, error) {
			return p.AddKey(Key{Name: "z", Public: pub(5)}, true)
		},
		"no key": func() (*Policy, error) { return p.AddKey(Key{Name: "z"}, true) },
		"a bad name": func() (*Policy, error) {
			return p.AddKey(Key{Name: "a\nb", Public: pub(4)}, true)
		},
		"a bad owner": func() (*Policy, error) {
			return p.AddKey(Key{Name: "z", Owner: "\x1b[31m", Public: pub(4)}, true)
		},
		"a bad glob": func() (*Policy, error) {
			return p.SetRule(Rule{Glob: "a?", Keys: []string{"a"}, Threshold: 1})
		},
		"an equal rule": func() (*Policy, error) {
			return p.SetRule(Rule{Glob: "*", Keys: []string{"a"}, Threshold: 1})
		},
		"threshold 0": func() (*Policy, error) {
			return p.SetRule(Rule{Glob: "x", Keys: []string{"a"}})
		},
		"an unknown key": func() (*Policy, error) {
			return p.SetRule(Rule{Glob: "x", Keys: []string{"q"}, Threshold: 1})
		},
		"revoking nothing": func() (*Policy, error) { return p.Revoke(Revocation{}) },
		"revoking two": func() (*Policy, error) {
			return p.Revoke(Revocation{Key: pub(1).Fingerprint(), Digest: digest("x")})
		},
		"removing what a rule needs": func() (*Policy, error) { return p.RemoveKey("a") },
		"removing what a list needs": func() (*Policy, error) { return p.RemoveKey("c") },
		"removing nothing":           func() (*Policy, error) { return p.Remove("names", "none/**") },
		"removing the format":        func() (*Policy, error) { return p.Remove("rye", "policy/2") },
		"removing from nowhere":      func() (*Policy, error) { return p.Remove("name", "**") },
		"removing an unknown key":    func() (*Policy, error) { return p.Remove("keys", "q") },
	} {
		if e, err := edit(); err == nil {
			t.Errorf("%s: done\n%s", name, e.Format())
		}
	}
	var owner *OwnerError
	if _, err := p.AddKey(Key{Name: "z", Public: pub(4), Owner: "Alice"}, false); !errors.As(err, &owner) ||
		!strings.Contains(err.Error(), pub(1).Fingerprint().String()) ||
		!strings.Contains(err.Error(), pub(4).Fingerprint().String()) {
		t.Errorf("a second key of an owner: %v", err)
	}
	if _, err := p.AddKey(Key{Name: "z", Public: pub(4), Owner: "Alice"}, true); err != nil {
		t.Errorf("a second key of an owner, on purpose: %v", err)
	}
	if _, err := p.AddKey(Key{Name: "a", Public: pub(4)}, false); !errors.As(err, &owner) {
		t.Errorf("another key of a name: %v", err)
	}
}

// The first edit of nothing makes a whole policy, and the last removal leaves the comments.
func TestFirstAndLast(t *testing.T) {
	e, err := mustParse(t, "# mine\n").AddKey(Key{Name: "a", Public: pub(1)}, false)
	if got, want := edited(t, e, err), fill("rye: policy/2\n\nkeys:\n  a: {key: \"$key1\"}\n# mine\n"); got != want {
		t.Errorf("got:\n%s", got)
	}
	e, err = mustParse(t, "override:\n  # one\n\n  # two\n  - rye/a  # three\n  # four\n").Remove("override", "rye/a")
	if got, want := edited(t, e, err), "# one\n\n# four\noverride: []\n"; got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestAccept(t *testing.T) {
	text := fill(listText)
	base := List{ID: digest("7"), Name: "acme", Counter: 7, Issued: noon.Add(-time.Hour), Expires: noon.Add(time.Hour),
		Signers: v2(3)}
	with := func(change func(*List)) *List {
		l := base
		change(&l)
		return mustList(t, l)
	}
	last := mustList(t, base)
	for _, c := range []struct {
		name, policy string
		next, last   *List
		want         string // in the error
		code         Code
	}{
		{name: "first", next: last},
		{name: "again", next: last, last: last},
		{name: "next", next: with(func(l *List) { l.Counter, l.ID = 8, digest("8") }), last: last},
		{name: "older", next: with(func(l *List) {
			l.Counter, l.ID = 6, digest("6")
		}), last: last, want: "issue 6 is older than the last one seen, 7", code: ListOlder},
		{name: "another of the same count", next: with(func(l *List) {
			l.ID = digest("7b")
		}), last: last, want: "issue 7 differs from the issue 7 seen before", code: ListForked},
		{name: "jump", next: with(func(l *List) {
			l.Counter = maxCounter
		}), last: last, want: "name a new key", code: ListJump},
		{name: "after a jump by a key that is gone", next: last, last: with(func(l *List) {
			l.Counter, l.Signers = maxCounter, v2(2)
		})},
		{name: "by another key", next: with(func(l *List) {
			l.Signers = v2(1, 2)
		}), want: `not signed by "sec"`, code: UntrustedKey},
		{name: "unsigned", next: with(func(l *List) {
			l.Signers = nil
		}), want: `not signed by "sec"`, code: UntrustedKey},
		{name: "first format", next: with(func(l *List) {
			l.Signers = v1(3)
		}), want: `not signed by "sec"`, code: UntrustedKey},
		{name: "of another name", next: with(func(l *List) { l.Name = "x" }),
			want: "does not name this revocation list"},
		{name: "expired", next: with(func(l *List) { l.Expires = noon }), want: "expired at", code: ListStale},
		{name: "too old", next: with(func(l *List) {
			l.Issued = noon.AddDate(0, 0, -8)
		}), want: "longer ago than 7d", code: ListStale},
		{name: "to come", next: with(func(l *List) {
			l.Issued, l.Expires = noon.Add(time.Hour), noon.Add(2*time.Hour)
		}), want: "issued in the future", code: ListStale},
		{name: "a little ahead", next: with(func(l *List) { l.Issued = noon.Add(time.Minute) })},
		{name: "revoked key", policy: text + "revoked:\n  \"key:$print3\": {}\n", next: last, want: "key revoked",
			code: KeyRevoked},
		{name: "expired key", policy: strings.Replace(text, "sec: {", `sec: {expires: "2026-11-20", `, 1), next: last,
			want: "expired", code: Expired},
	} {
		side := Side{Policy: mustParse(t, text)}
		if c.policy != "" {
			side.Policy = mustParse(t, c.policy)
		}
		err := side.Accept(c.next, c.last, noon)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if refused, _ := fault.Find(err); c.code != Undecided && refused.Details["reason"] != c.code.String() {
			t.Errorf("%s: %+v, want %v", c.name, refused, c.code)
		}
	}
	for name, l := range map[string]List{
		"counter 0":    {Counter: 0, Issued: noon, Expires: noon.Add(1)},
		"counter 2^53": {Counter: maxCounter + 1, Issued: noon, Expires: noon.Add(1)},
		"no dates":     {Counter: 1},
		"never fresh":  {Counter: 1, Issued: noon, Expires: noon},
	} {
		if _, err := NewList(l, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewList(base, []Revocation{{}}); err == nil {
		t.Error("an entry that revokes nothing: accepted")
	}
}

const rotateText = `
keys:
  a: {key: "$key1"}
  b: {key: "$key2"}
  c: {key: "$key3", expires: "2026-11-20"}
names:
  # ours
  "acme/**": {keys: [a, b, c], threshold: 2}  # two of us
  "x/**": {keys: [b]}
`

func TestRotate(t *testing.T) {
	before := []key.Fingerprint{pub(3).Fingerprint(), pub(1).Fingerprint(), pub(2).Fingerprint()}
	good := Rotation{Rule: "acme/**", Before: before, Retire: pub(1).Fingerprint(),
		Key: Key{Name: "d", Public: pub(4)}}
	with := func(change func(*Rotation)) Rotation {
		r := good
		change(&r)
		return r
	}
	for _, c := range []struct {
		name    string
		policy  string
		r       Rotation
		signers []sign.Signer
		code    Code // Undecided: done
	}{
		{name: "good", r: good, signers: v2(1, 2, 4)},
		{name: "only old", r: good, signers: v2(1, 2), code: BelowThreshold},
		{name: "only new", r: good, signers: v2(4), code: BelowThreshold},
		{name: "below the threshold", r: good, signers: v2(1, 4), code: BelowThreshold},
		{name: "one key twice", r: good, signers: v2(1, 1, 4), code: BelowThreshold},
		{name: "an expired key doesn't count", r: good, signers: v2(1, 3, 4), code: Expired},
		{name: "a revoked key doesn't count", policy: rotateText + "revoked:\n  \"key:$print2\": {}\n", r: good,
			signers: v2(1, 2, 4), code: KeyRevoked},
		{name: "strangers don't count", r: good, signers: v2(1, 8, 9, 4), code: BelowThreshold},
		{name: "the first format doesn't count", r: good, signers: append(v1(1, 2), v2(4)...), code: BelowThreshold},
		{name: "the new key in the first format", r: good, signers: append(v2(1, 2), v1(4)...), code: BelowThreshold},
		{name: "the new key is revoked", policy: rotateText + "revoked:\n  \"key:$print4\": {}\n", r: good,
			signers: v2(1, 2, 4), code: KeyRevoked},
		{name: "the new key has expired", r: with(func(r *Rotation) {
			r.Key.Expires = noon
		}), signers: v2(1, 2, 4), code: Expired},
		{name: "the new key is not valid yet", r: with(func(r *Rotation) {
			r.Key.NotBefore = noon.Add(1)
		}), signers: v2(1, 2, 4), code: NotYetValid},
		{name: "the document has expired", r: with(func(r *Rotation) {
			r.Expires = noon
		}), signers: v2(1, 2, 4), code: Expired},
		{name: "no such rule", r: with(func(r *Rotation) { r.Rule = "acme/*" }), signers: v2(1, 2, 4), code: NoRule},
		{name: "a step left out", r: with(func(r *Rotation) {
			r.Before = []key.Fingerprint{before[0], before[1], pub(5).Fingerprint()}
		}), signers: v2(1, 2, 4), code: NoRule},
		{name: "not all keys", r: with(func(r *Rotation) {
			r.Before = before[1:]
		}), signers: v2(1, 2, 4), code: NoRule},
		{name: "one key for two", r: with(func(r *Rotation) {
			r.Before = []key.Fingerprint{before[0], before[1], before[1]}
		}), signers: v2(1, 2, 4), code: NoRule},
		{name: "no old key", r: with(func(r *Rotation) {
			r.Retire = pub(5).Fingerprint()
		}), signers: v2(1, 2, 4), code: NoRule},
		{name: "no new key", r: with(func(r *Rotation) { r.Key.Public = pub(2) }), signers: v2(1, 2), code: NoRule},
		{name: "zero key", r: with(func(r *Rotation) {
			r.Key.Public = key.Public{}
		}), signers: v2(1, 2, 4), code: BadRequest},
	} {
		side := Side{Policy: mustParse(t, rotateText)}
		if c.policy != "" {
			side.Policy = mustParse(t, c.policy)
		}
		e, err := side.Rotate(c.r, c.signers, noon)
		var refused *RotationError
		if c.code == Undecided && err != nil || c.code != Undecided &&
			(!errors.As(err, &refused) || refused.Code != c.code) {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
		if err == nil {
			// Once is enough: what it starts from is gone.
			again := Side{Policy: e}
			if _, err := again.Rotate(c.r, c.signers, noon); err == nil {
				t.Errorf("%s: done twice", c.name)
			}
		}
	}
	if _, err := (&Side{Policy: mustParse(t, rotateText)}).Rotate(good, v2(1, 2, 4), time.Time{}); err == nil {
		t.Error("without a time: done")
	}
}

func TestRotateEdits(t *testing.T) {
	side := Side{Policy: mustParse(t, rotateText)}
	before := []key.Fingerprint{pub(1).Fingerprint(), pub(2).Fingerprint(), pub(3).Fingerprint()}
	r := Rotation{Rule: "acme/**", Before: before, Retire: pub(1).Fingerprint(),
		Key: Key{Name: "d", Public: pub(4), Owner: "Dave"}}
	e, err := side.Rotate(r, v2(1, 2, 4), noon)
	want := strings.NewReplacer("  a: {key: \"$key1\"}\n", "", "[a, b, c]", "[d, b, c]",
		"names:", "  d: {key: \"$key4\", owner: Dave}\n\nnames:").Replace(strings.TrimPrefix(rotateText, "\n"))
	if got := edited(t, e, err); got != fill(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, fill(want))
	}
	if got, want := changes(side.Policy, e),
		fill(
			"- keys a key: $key1\n+ keys d key: $key4\n+ keys d owner: Dave\n~ names \"acme/**\" keys: [a, b, c] -> [b, c, d]\n"); got != want {
		t.Errorf("changes:\n%s\nwant:\n%s", got, want)
	}
	// Another rule names b: it stays a key.
	r.Retire = pub(2).Fingerprint()
	e, err = side.Rotate(r, v2(1, 2, 4), noon)
	edited(t, e, err)
	if _, ok := e.KeyNamed("b"); !ok {
		t.Error("a key that another rule names is gone")
	}
	// And its name can't be given to another.
	r.Key.Name = "b"
	var owner *OwnerError
	if _, err := side.Rotate(r, v2(1, 2, 4), noon); !errors.As(err, &owner) {
		t.Errorf("the name of a key that stays: %v", err)
	}
	// A key may take over its predecessor's name, and one that is known keeps its own.
	r.Retire, r.Key.Name = pub(1).Fingerprint(), "a"
	e, err = side.Rotate(r, v2(1, 2, 4), noon)
	edited(t, e, err)
	if k, _ := e.KeyNamed("a"); k.Public != pub(4) {
		t.Error("the name was not taken over")
	}
	side.Policy = mustParse(t, strings.Replace(rotateText, "  a:", "  known: {key: \"$key4\"}\n  a:", 1))
	e, err = side.Rotate(r, v2(1, 2, 4), noon)
	edited(t, e, err)
	if k, _ := e.Key(pub(4).Fingerprint()); k.Name != "known" {
		t.Errorf("a known key was named %q", k.Name)
	}
}

func TestDiff(t *testing.T) {
	a := mustParse(t, "names: {}\nkeys: {b: {key: $key2}, a: {key: $key1}}\nexec: {network: [b, a]}\n")
	b := mustParse(t,
		"# x\nkeys: {a: {key: $key1}, b: {key: $key2}}\nexec: {toolchain: record, network: [a, b], audit: on}\n")
	if d := Diff(a, b); len(d) > 0 {
		t.Errorf("one meaning, and yet %v", d)
	}
}

// Any sequence of edits keeps every policy readable and every comment in place.
func TestEditSequences(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		p := mustParse(t, editText)
		for range 8 {
			var e *Policy
			var err error
			n := rnd.IntN(4)
			switch rnd.IntN(5) {
			case 0:
				e, err = p.AddKey(Key{Name: fmt.Sprint("k", n), Public: pub(byte(4 + n))}, true)
			case 1:
				e, err = p.SetRule(Rule{Glob: fmt.Sprintf("g%d/**", n), Keys: []string{"a", "b"}, Threshold: 1 + n%2})
			case 2:
				e, err = p.Revoke(Revocation{Digest: digest(fmt.Sprint(n)), Reason: "r"})
			case 3:
				e, err = p.Remove("names", fmt.Sprintf("g%d/**", n))
			case 4:
				e, err = p.Remove("revoked", digest(fmt.Sprint(n)).String())
			}
			if err != nil {
				continue
			}
			p = e
			checkStable(t, p)
			for _, c := range []string{"# people", "# the boss", "# hers", "# everything", "# first", "# the end"} {
				if !bytes.Contains(p.Format(), []byte(c)) {
					t.Fatalf("%q is gone:\n%s", c, p.Format())
				}
			}
		}
	}
}

func TestFind(t *testing.T) {
	p := mustParse(t, editText)
	if k, ok := p.Find(pub(2).Fingerprint()); !ok || k != pub(2) {
		t.Error("a key is not found")
	}
	if _, ok := p.Find(pub(9).Fingerprint()); ok {
		t.Error("a stranger is found")
	}
	if got := p.FindV1(pub(3).V1ID()); len(got) != 1 || got[0] != pub(3) {
		t.Errorf("found %v", got)
	}
	if got := p.FindV1(pub(9).V1ID()); got != nil {
		t.Errorf("found %v", got)
	}
}

func TestErrors(t *testing.T) {
	for want, err := range map[string]error{
		`rotation of "a": why`: &RotationError{Rule: "a", Code: NoRule, Reason: "why"},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

// TestAddDigest: a digest is admitted under one name alone, unless it is revoked; grants replace those of their glob.
func TestAddDigest(t *testing.T) {
	p := mustParse(t, rootText)
	d := digest("plugin")
	after, err := p.AddDigest(DigestEntry{Digest: d, As: "bundle:plugins/x@1.0.0+0123456789ab"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"bundle:plugins/x@1.0.0+0123456789ab": true,
		"bundle:plugins/y@1.0.0": false} {
		got := Decide(Request{Name: name, Stripped: d, Document: d,
			Now: time.Unix(1_800_000_000, 0)}, Side{Policy: after}, nil)
		if got.Allowed != want {
			t.Errorf("%s: %t, %s", name, got.Allowed, got.Reason())
		}
	}
	for _, patterns := range [][]string{{"execute:tool:a/*"}, {"execute:tool:b/*"}} {
		if after, err = after.SetGrants("directive:plugins/x/**", patterns); err != nil {
			t.Fatal(err)
		}
		if got, found := after.Grants("directive:plugins/x/y"); !found || !slices.Equal(got, patterns) {
			t.Errorf("got %v", got)
		}
	}
	if after, err = after.Revoke(Revocation{Digest: d, Reason: "bad"}); err != nil {
		t.Fatal(err)
	}
	if _, err := after.AddDigest(DigestEntry{Digest: d}); err == nil {
		t.Error("a revoked digest was added")
	}
}
