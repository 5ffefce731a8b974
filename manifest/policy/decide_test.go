package policy

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// v2 and v1 are signatures by the keys of these seeds.
func v2(seeds ...byte) []sign.Signer { return signers(sign.V2, seeds) }
func v1(seeds ...byte) []sign.Signer { return signers(sign.V1, seeds) }

func signers(f sign.Format, seeds []byte) (all []sign.Signer) {
	for _, s := range seeds {
		all = append(all, sign.Signer{Key: pub(s), Time: noon, Format: f})
	}
	return all
}

func mustList(t testing.TB, l List, revoked ...string) *List {
	t.Helper()
	var entries []Revocation
	for _, what := range revoked {
		r, err := ParseRevocation(fill(what))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, r)
	}
	made, err := NewList(l, entries)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const rootText = `
keys:
  a: {key: $key1}
  b: {key: $key2}
  old: {key: $key3, expires: "2026-11-20T12:00:00Z"}
  new: {key: $key4, not-before: "2026-11-20T12:00:01Z"}
  bad: {key: $key5}
names:
  "**": {keys: [a, old, new, bad], except: ["rye/**"]}
  acme/**: {keys: [a, b], threshold: 2}
  acme/legacy/*: {keys: [a], accept: [v1, v2]}
  tool:acme/legacy/*: {keys: [b], accept: [v1, v2]}
  bundle:acme/legacy/*: {keys: [b], accept: [v1, v2]}
  build:linux/amd64: {keys: [b]}
digests:
  "$digest(pinned)": {}
  "$digest(named)": {as: "tool:x/named"}
  "$digest(anchor)": {tree: "$digest(tree)"}
  "$digest(both)": {}
revoked:
  "key:$print5": {reason: "stolen", date: "2026-11-01"}
  "$digest(gone)": {reason: "steals tokens"}
  "$digest(both)": {}
`

const listText = `
keys:
  a: {key: $key1}
  b: {key: $key2}
  sec: {key: $key3}
names:
  "**": {keys: [a]}
lists:
  acme: {from: list.yaml, key: sec, max-age: 7d}
`

func TestDecide(t *testing.T) {
	root := mustParse(t, rootText)
	fresh := List{Name: "acme", Counter: 1, Issued: noon.Add(-time.Hour), Expires: noon.Add(time.Hour), Signers: v2(3)}
	lists := func(l List, revoked ...string) map[string]*List {
		return map[string]*List{"acme": mustList(t, l, revoked...)}
	}
	with := func(change func(*List)) List {
		l := fresh
		change(&l)
		return l
	}
	warn := strings.Replace(listText, "7d}", "7d, stale: warn}", 1)
	type test struct {
		name    string
		request Request
		policy  string // "": rootText
		lists   map[string]*List
		project string
		code    Code
		reason  string
	}
	for _, c := range []test{
		{name: "one key", request: Request{Signers: v2(1)}, code: Admitted,
			reason: `is signed by 1 of 1 key under "**"; signed by "a"`},
		{name: "unsigned", code: Unsigned, reason: `is unsigned; "**" requires 1 key`},
		{name: "unsigned without a rule", request: Request{Name: "audit:x"}, code: Unsigned,
			reason: `is unsigned, and no rule of the policy covers its name`},
		{name: "lines of strangers only", request: Request{Unknown: []string{"abc"}}, code: UntrustedKey,
			reason: `is not signed by a key of the policy`},
		{name: "stranger", request: Request{Signers: v2(9)}, code: UntrustedKey,
			reason: `is not signed by a key of the policy; signed by ` + pub(9).Fingerprint().Short()},
		{name: "stranger beside a friend", request: Request{Signers: v2(9, 1)}, code: Admitted},
		{name: "key of other names", request: Request{Signers: v2(2)}, code: NoRule,
			reason: `has a name that "**" gives to other keys; signed by "b"`},
		{name: "excepted", request: Request{Name: "tool:rye/bash", Signers: v2(1)}, code: NoRule,
			reason: `has a name that the rule "**" excepts; signed by "a"`},
		{name: "no rule", request: Request{Name: "audit:x", Signers: v2(1)}, code: NoRule,
			reason: `has a name that no rule of the policy covers; signed by "a"`},
		{name: "named kind", request: Request{Name: "build:linux/amd64", Signers: v2(2)}, code: Admitted},
		{name: "expired", request: Request{Signers: v2(3)}, code: Expired,
			reason: `is signed by a key that has expired; signed by "old"`},
		{name: "not expired", request: Request{Signers: v2(3), Now: noon.Add(-time.Nanosecond)}, code: Admitted},
		{name: "not yet valid", request: Request{Signers: v2(4)}, code: NotYetValid,
			reason: `is signed by a key that is not valid yet; signed by "new"`},
		{name: "valid from now", request: Request{Signers: v2(4), Now: noon.Add(time.Second)}, code: Admitted},
		{name: "revoked key", request: Request{Signers: v2(5)}, code: KeyRevoked,
			reason: `is signed by a revoked key: key:` + pub(5).Fingerprint().String() +
				`, "stolen", 2026-11-01; signed by "bad"`},
		{name: "revoked beside a good key", request: Request{Signers: v2(5, 1)}, code: Admitted,
			reason: `is signed by 1 of 1 key under "**"; signed by "a", "bad": key revoked`},
		{name: "gravest fault", request: Request{Signers: v2(9, 4, 5, 3, 2)}, code: KeyRevoked},
		{name: "threshold", request: Request{Name: "tool:acme/x", Signers: v2(1, 2)}, code: Admitted,
			reason: `is signed by 2 of 2 keys under "acme/**"; signed by "b", "a"`},
		{name: "below threshold", request: Request{Name: "tool:acme/x", Signers: v2(1)}, code: BelowThreshold,
			reason: `is signed by 1 of the 2 keys that "acme/**" requires; signed by "a"`},
		{name: "one key twice", request: Request{Name: "tool:acme/x", Signers: v2(1, 1)}, code: BelowThreshold},
		{name: "version of a bundle", request: Request{Name: "bundle:acme/x@1.0.0+a", Signers: v2(1, 2)},
			code: Admitted},
		{name: "longest prefix", request: Request{Name: "knowledge:acme/legacy/x", Signers: v2(2)}, code: NoRule,
			reason: `has a name that "acme/legacy/*" gives to other keys; signed by "b"`},
		{name: "the kind is more particular", request: Request{Name: "tool:acme/legacy/x", Signers: v2(2)},
			code: Admitted},
		{name: "one star is one segment", request: Request{Name: "tool:acme/legacy/x/y", Signers: v2(2)},
			code: BelowThreshold},

		{name: "v1 not accepted", request: Request{Signers: v1(1)}, code: FormatNotAccepted,
			reason: `is signed in the first format (v1), which "**" does not accept; signed by "a" (v1)`},
		{name: "v1 not accepted to show", request: Request{Signers: v1(1), Purpose: ToShow}, code: FormatNotAccepted},
		{name: "v1 is evidence", request: Request{Name: "tool:acme/legacy/x", Signers: v1(2)}, code: EvidenceOnly,
			reason: `is signed in the first format (v1), which may be shown and upgraded but not used: neither a manifest nor "digests:" lists its digest; signed by "b" (v1)`},
		{name: "v1 to show", request: Request{Name: "tool:acme/legacy/x", Signers: v1(2), Purpose: ToShow},
			code: Admitted},
		{name: "v1 in a manifest", request: Request{Name: "tool:acme/legacy/x", Signers: v1(2), Listed: true},
			code: Admitted},
		{name: "v1 and digests", request: Request{Name: "tool:acme/legacy/x", Signers: v1(2), Raw: digest("pinned")},
			code: Admitted},
		{name: "v1 manifest", request: Request{Name: "bundle:acme/legacy/x@1", Signers: v1(2)}, code: Admitted},
		{name: "v1 of a stranger in a manifest", request: Request{Name: "tool:acme/legacy/x", Signers: v1(9),
			Listed: true}, code: UntrustedKey},
		{name: "v1 and v2 by one key", request: Request{Name: "tool:acme/legacy/x",
			Signers: slices.Concat(v1(2), v2(2))}, code: Admitted},
		{name: "no format", request: Request{Signers: signers(sign.None, []byte{1})}, code: FormatNotAccepted},

		{name: "digest", request: Request{Raw: digest("pinned")}, code: Admitted, reason: `is admitted by its digest`},
		{name: "document", request: Request{Name: "bundle:x@1", Document: digest("pinned")}, code: Admitted},
		{name: "stripped digest admits nothing", request: Request{Stripped: digest("pinned")}, code: Unsigned},
		{name: "digest and another tree", request: Request{Raw: digest("pinned"), Tree: digest("tree"),
			Files: []cas.Digest{}}, code: Unsigned},
		{name: "digest and its tree", request: Request{Raw: digest("anchor"), Tree: digest("tree"),
			Files: []cas.Digest{}}, code: Admitted},
		{name: "digest without its tree", request: Request{Raw: digest("anchor")}, code: Unsigned},
		{name: "digest under its name", request: Request{Name: "tool:x/named", Raw: digest("named")}, code: Admitted},
		{name: "digest under another name", request: Request{Raw: digest("named")}, code: Unsigned},
		{name: "digest admitted and revoked", request: Request{Raw: digest("both")}, code: DigestRevoked},
		{name: "raw revoked", request: Request{Signers: v2(1), Raw: digest("gone")}, code: DigestRevoked,
			reason: `is revoked: ` + digest("gone").String() + `, "steals tokens"`},
		{name: "stripped revoked", request: Request{Signers: v2(1), Stripped: digest("gone")}, code: DigestRevoked},
		{name: "tree revoked", request: Request{Signers: v2(1), Tree: digest("gone"), Files: []cas.Digest{}},
			code: DigestRevoked},
		{name: "document revoked", request: Request{Signers: v2(1), Document: digest("gone")}, code: DigestRevoked},
		{name: "file revoked", request: Request{Signers: v2(1), Tree: digest("t"),
			Files: []cas.Digest{digest("f"), digest("gone")}}, code: DigestRevoked},
		{name: "builtin", request: Request{Name: "tool:rye/bash", Voucher: Builtin}, code: Admitted,
			reason: `is part of this binary`},
		{name: "builtin revoked", request: Request{Voucher: Builtin, Raw: digest("gone")}, code: DigestRevoked},
		{name: "dev", request: Request{Voucher: Dev}, code: Admitted,
			reason: `is used as it is, for this one call`},
		{name: "dev revoked", request: Request{Voucher: Dev, Raw: digest("gone")}, code: DigestRevoked},

		{name: "fresh list", policy: listText, lists: lists(fresh), request: Request{Signers: v2(1)}, code: Admitted},
		{name: "list revokes a key", policy: listText, lists: lists(fresh, "key:$print1"),
			request: Request{Signers: v2(1)}, code: KeyRevoked,
			reason: `is signed by a revoked key: key:` + pub(1).Fingerprint().String() +
				`, by the list "acme"; signed by "a"`},
		{name: "list revokes a digest", policy: listText, lists: lists(fresh, "$digest(evil)"),
			request: Request{Signers: v2(1), Raw: digest("evil")}, code: DigestRevoked,
			reason: `is revoked: ` + digest("evil").String() + `, by the list "acme"`},
		{name: "no list", policy: listText, request: Request{Signers: v2(1)}, code: ListStale,
			reason: `can't be checked: the revocation list "acme" was never fetched`},
		{name: "list expired", policy: listText, lists: lists(with(func(l *List) {
			l.Expires = noon
		})), request: Request{Signers: v2(1)}, code: ListStale,
			reason: `can't be checked: the revocation list "acme" expired at 2026-11-20T12:00:00Z; the clock says 2026-11-20T12:00:00Z`},
		{name: "list too old", policy: listText, lists: lists(with(func(l *List) {
			l.Issued = noon.Add(-7*24*time.Hour - 1)
		})), request: Request{Signers: v2(1)}, code: ListStale,
			reason: `can't be checked: the revocation list "acme" was issued at 2026-11-13T11:59:59Z, longer ago than 7d; the clock says 2026-11-20T12:00:00Z`},
		{name: "list to come", policy: listText, lists: lists(fresh),
			request: Request{Signers: v2(1), Now: noon.AddDate(-10, 0, 0)}, code: ListStale,
			reason: `can't be checked: the revocation list "acme" was issued in the future, at 2026-11-20T11:00:00Z: check the clock, which says 2016-11-20T12:00:00Z`},
		{name: "list by another key", policy: listText, lists: lists(with(func(l *List) {
			l.Signers = v2(1)
		})), request: Request{Signers: v2(1)}, code: ListStale},
		{name: "list signed in the first format", policy: listText, lists: lists(with(func(l *List) {
			l.Signers = v1(3)
		})), request: Request{Signers: v2(1)}, code: ListStale},
		{name: "list of another name", policy: listText, lists: lists(with(func(l *List) {
			l.Name = "other"
		})), request: Request{Signers: v2(1)}, code: ListStale},
		{name: "list by a revoked key", policy: listText + "revoked:\n  \"key:$print3\": {}\n", lists: lists(fresh),
			request: Request{Signers: v2(1)}, code: ListStale,
			reason: `can't be checked: the revocation list "acme" is signed by "sec": key revoked`},
		{name: "stale list may be", policy: warn, request: Request{Signers: v2(1)}, code: Admitted},
		{name: "stale list still revokes", policy: warn, lists: lists(with(func(l *List) {
			l.Expires = noon
		}), "key:$print1"), request: Request{Signers: v2(1)}, code: KeyRevoked},
		{name: "stale list and builtin", policy: listText, request: Request{Voucher: Builtin}, code: ListStale},

		{name: "project agrees", project: listTextWithoutList, request: Request{Signers: v2(1)}, code: Admitted},
		{name: "project without rules", project: "keys: {}\n", request: Request{Signers: v2(1)}, code: UntrustedKey,
			reason: `is not signed by a key of the policy; signed by ` + pub(1).Fingerprint().Short() +
				` (by the project's policy)`},
		{name: "project can't allow", project: "keys:\n  x: {key: $key9}\nnames:\n  \"**\": {keys: [x]}\n",
			request: Request{Signers: v2(9)}, code: UntrustedKey},
		{name: "project revokes", project: listTextWithoutList + "revoked:\n  \"key:$print1\": {}\n",
			request: Request{Signers: v2(1)}, code: KeyRevoked},
		{name: "project raises the threshold", project: strings.Replace(listTextWithoutList, "[a]",
			"[a, b], threshold: 2", 1), request: Request{Signers: v2(1)}, code: BelowThreshold},
		{name: "project and builtin", project: "{}\n", request: Request{Voucher: Builtin}, code: Admitted},
		{name: "project's digests can't allow", project: "digests:\n  \"$digest(raw)\": {}\n", code: Unsigned},

		{name: "no kind", request: Request{Name: "x", Signers: v2(1)}, code: BadRequest,
			reason: `can't be decided: "x" is not a name: expected kind:id`},
		{name: "empty version", request: Request{Name: "bundle:x@", Signers: v2(1)}, code: BadRequest},
		{name: "version of a tool", request: Request{Name: "tool:x@1", Signers: v2(1)}, code: BadRequest},
		{name: "two colons", request: Request{Name: "tool:x:y", Signers: v2(1)}, code: BadRequest},
		{name: "dots", request: Request{Name: "tool:rye/../x", Signers: v2(1)}, code: BadRequest},
		{name: "homoglyph", request: Request{Name: "tool:\u0430cme/x", Signers: v2(1)}, code: BadRequest},
		{name: "division slash", request: Request{Name: "tool:rye\u2215core", Signers: v2(1)}, code: BadRequest},
		{name: "star", request: Request{Name: "tool:*", Signers: v2(1)}, code: BadRequest},
		{name: "no files", request: Request{Signers: v2(1), Tree: digest("t")}, code: BadRequest},
		{name: "unknown voucher", request: Request{Voucher: 7}, code: BadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.request
			if r.Name == "" {
				r.Name = "tool:my/x"
			}
			if r.Raw.IsZero() {
				r.Raw = digest("raw")
			}
			if r.Now.IsZero() {
				r.Now = noon
			}
			side := Side{Policy: root, Lists: c.lists}
			if c.policy != "" {
				side.Policy = mustParse(t, c.policy)
			}
			var project *Side
			if c.project != "" {
				project = &Side{Policy: mustParse(t, strings.ReplaceAll(c.project, "$key9", pub(9).String()))}
			}
			d := Decide(r, side, project)
			if d.Code != c.code || d.Allowed != (c.code == Admitted) {
				t.Errorf("%v: %s, want %v", d.Code, d.Reason(), c.code)
			}
			if got := d.Reason(); c.reason != "" && got != c.reason {
				t.Errorf("\n got %s\nwant %s", got, c.reason)
			}
			if d.Allowed && (project != nil) != (d.Beside != nil) {
				t.Error("what the project's policy said is missing, or was never said")
			}
		})
	}
}

var listTextWithoutList, _, _ = strings.Cut(listText, "lists:")

// What a caller forgot never allows.
func TestIncomplete(t *testing.T) {
	side := Side{Policy: mustParse(t, listTextWithoutList)}
	full := Request{Name: "tool:x", Signers: v2(1), Raw: digest("raw"), Now: noon}
	if d := Decide(full, side, nil); !d.Allowed {
		t.Fatal(d.Reason())
	}
	for name, d := range map[string]Decision{
		"no time":           Decide(Request{Name: full.Name, Signers: full.Signers, Raw: full.Raw}, side, nil),
		"no digest":         Decide(Request{Name: full.Name, Signers: full.Signers, Now: noon}, side, nil),
		"no name":           Decide(Request{Raw: full.Raw, Signers: full.Signers, Now: noon}, side, nil),
		"no policy":         Decide(full, Side{}, nil),
		"no project policy": Decide(full, side, &Side{}),
		"nothing":           Decide(Request{}, Side{}, nil),
	} {
		if d.Allowed || d.Code != BadRequest {
			t.Errorf("%s: %v", name, d.Code)
		}
	}
}

func TestStaleWarns(t *testing.T) {
	side := Side{Policy: mustParse(t, strings.Replace(listText, "7d}", "7d, stale: warn}", 1))}
	d := Decide(Request{Name: "tool:x", Signers: v2(1), Raw: digest("raw"), Now: noon}, side, nil)
	if want := []string{`revocation list "acme" was never fetched`}; !d.Allowed ||
		!reflect.DeepEqual(d.Warnings, want) {
		t.Errorf("%v %q", d.Code, d.Warnings)
	}
}

// A policy made by hand in Go could hold a tie, which files can't: still one answer, and no.
func TestAmbiguous(t *testing.T) {
	p := mustParse(t, listTextWithoutList)
	g, err := glob.Parse("*")
	if err != nil {
		t.Fatal(err)
	}
	twin := p.rules[0]
	twin.glob = g
	p.rules = append(p.rules, twin)
	p.sections.Rules = append(p.sections.Rules, p.sections.Rules[0])
	d := Decide(Request{Name: "tool:x", Signers: v2(1), Raw: digest("raw"), Now: noon}, Side{Policy: p}, nil)
	if d.Code != Ambiguous || d.Allowed {
		t.Error(d.Code)
	}
}

// A randomPolicy draws from few keys, names and digests, so that what it says often matters.
func randomPolicy(rnd *rand.Rand) string {
	var b strings.Builder
	pick := func(n int) bool { return rnd.IntN(n) == 0 }
	some := func(words ...string) string {
		rnd.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return "[" + strings.Join(words[:1+rnd.IntN(len(words))], ", ") + "]"
	}
	b.WriteString("keys:\n")
	for _, n := range []string{"1", "2", "3"} {
		b.WriteString("  k" + n + ": {key: $key" + n)
		if pick(4) {
			b.WriteString(`, expires: "2026-11-20"`)
		} else if pick(6) {
			b.WriteString(`, not-before: "2026-11-21"`)
		}
		b.WriteString("}\n")
	}
	b.WriteString("names:\n")
	for _, g := range []string{`"**"`, `a/**`, `"tool:a/**"`, `a/b`, `bundle:a/*`} {
		if pick(2) {
			continue
		}
		keys := some("k1", "k2", "k3")
		b.WriteString("  " + g + ": {keys: " + keys)
		if n := 1 + strings.Count(keys, ","); n > 1 && pick(2) {
			b.WriteString(", threshold: 2")
		}
		if pick(2) {
			b.WriteString(", accept: [v1, v2]")
		}
		if pick(4) {
			b.WriteString(`, except: ["a/c/**"]`)
		}
		b.WriteString("}\n")
	}
	text := strings.TrimSuffix(b.String(), "names:\n")
	if pick(4) {
		text += "digests:\n  \"$digest(raw)\": {}\n"
	}
	if pick(3) {
		text += "revoked:\n  \"key:$print1\": {}\n"
		if pick(2) {
			text += "  \"$digest(raw)\": {}\n"
		}
	}
	return text
}

func randomRequest(rnd *rand.Rand) Request {
	names := []string{"tool:a/b", "tool:a/c/d", "bundle:a/x@1", "knowledge:z", "tool:a/b/c"}
	raws := []cas.Digest{digest("raw"), digest("other"), digest("third")}
	r := Request{Name: names[rnd.IntN(len(names))], Raw: raws[rnd.IntN(len(raws))], Now: noon,
		Listed: rnd.IntN(3) == 0, Purpose: Purpose(rnd.IntN(2))}
	for range rnd.IntN(5) {
		r.Signers = append(r.Signers, sign.Signer{Key: pub(byte(1 + rnd.IntN(4))),
			Format: sign.V1 + sign.Format(rnd.IntN(2))})
	}
	return r
}

func randomPolicies(t *testing.T, rnd *rand.Rand, n int) []*Policy {
	all := make([]*Policy, n)
	for i := range all {
		all[i] = mustParse(t, randomPolicy(rnd))
	}
	return all
}

// A project can only narrow, whatever the two policies say: allowed with a project's policy is allowed without.
// Thresholds count distinct keys, and the order of signers doesn't matter.
func TestDecideProperties(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	policies := randomPolicies(t, rnd, 2000)
	var allowed, narrowed int
	for range 100_000 {
		root, project := Side{Policy: policies[rnd.IntN(len(policies))]},
			Side{Policy: policies[rnd.IntN(len(policies))]}
		r := randomRequest(rnd)
		alone, both, asRoot := Decide(r, root, nil), Decide(r, root, &project), Decide(r, project, nil)
		if both.Allowed != (alone.Allowed && asRoot.Allowed) {
			t.Fatalf("alone %v, both %v, the project as root %v:\n%s\n%s\n%+v", alone.Code, both.Code, asRoot.Code,
				root.Policy.Format(), project.Policy.Format(), r)
		}
		if both.Allowed {
			allowed++
		} else if alone.Allowed {
			narrowed++
		}
		checkCount(t, root.Policy, r, alone)
		shuffled := r
		shuffled.Signers = slices.Concat(r.Signers, r.Signers)
		rnd.Shuffle(len(shuffled.Signers), func(i, j int) {
			shuffled.Signers[i], shuffled.Signers[j] = shuffled.Signers[j], shuffled.Signers[i]
		})
		if again := Decide(shuffled, root, &project); !reflect.DeepEqual(again, both) {
			t.Fatalf("another order, twice each:\n%+v\n%+v", again, both)
		}
		// Without a signer nothing more is allowed.
		if len(r.Signers) > 0 {
			fewer := r
			fewer.Signers = slices.Delete(slices.Clone(r.Signers), 0, 1)
			if Decide(fewer, root, nil).Allowed && !alone.Allowed {
				t.Fatalf("one signer fewer is allowed: %+v", r)
			}
		}
	}
	if allowed < 5000 || narrowed < 5000 {
		t.Errorf("%d allowed, %d narrowed: the policies are too much alike", allowed, narrowed)
	}
}

// checkCount counts the keys once more, the simple way, for requests that a rule decided.
func checkCount(t *testing.T, p *Policy, r Request, d Decision) {
	t.Helper()
	if d.Rule == "" || d.Excepted {
		return
	}
	i := slices.IndexFunc(p.sections.Rules, func(x Rule) bool { return x.Glob == d.Rule })
	rule := p.sections.Rules[i]
	count := 0
	for _, name := range rule.Keys {
		k, _ := p.KeyNamed(name)
		revoked := slices.ContainsFunc(p.sections.Revoked, func(x Revocation) bool {
			return x.Key == k.Public.Fingerprint()
		})
		valid := (k.Expires.IsZero() || noon.Before(k.Expires)) && !noon.Before(k.NotBefore) && !revoked
		signed := slices.ContainsFunc(r.Signers, func(s sign.Signer) bool {
			return s.Key == k.Public && (s.Format == sign.V2 ||
				rule.V1 && (r.Listed || r.Purpose == ToShow || strings.HasPrefix(r.Name, "bundle:")))
		})
		if valid && signed {
			count++
		}
	}
	if d.Count != count || d.Allowed != (count >= rule.Threshold) {
		t.Fatalf("counted %d and allowed %v, want %d of %d in\n%s", d.Count, d.Allowed, count, rule.Threshold,
			p.Format())
	}
}

func BenchmarkDecide(b *testing.B) {
	side := Side{Policy: mustParse(b, rootText)}
	r := Request{Name: "tool:acme/x", Signers: v2(1, 2), Raw: digest("raw"), Stripped: digest("s"), Now: noon}
	b.ReportAllocs()
	for b.Loop() {
		if d := Decide(r, side, nil); !d.Allowed {
			b.Fatal(d.Reason())
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte(fill(rootText))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
