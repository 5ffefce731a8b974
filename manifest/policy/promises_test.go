package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// TestSecondList: what any list of a policy revokes is revoked, not only what the first does.
func TestSecondList(t *testing.T) {
	s := Side{Policy: mustParse(t, `keys:
  a: {key: "$key1"}
  b: {key: "$key2"}
names:
  "**": {keys: [a]}
lists:
  l: {from: x, key: a, max-age: 7d}
  m: {from: y, key: b, max-age: 7d}
`), Lists: map[string]*List{}}
	for i, name := range []string{"l", "m"} {
		list, err := NewList(List{Name: name, Counter: 1, Issued: noon.Add(-time.Hour), Expires: noon.Add(time.Hour),
			Signers: v2(byte(i + 1))}, []Revocation{{Digest: digest(name)}})
		if err != nil {
			t.Fatal(err)
		}
		s.Lists[name] = list
	}
	for what, want := range map[string]Code{"l": DigestRevoked, "m": DigestRevoked, "n": Admitted} {
		d := Decide(Request{Name: "tool:x", Raw: digest(what), Signers: v2(1), Now: noon}, s, nil)
		if d.Code != want {
			t.Errorf("%s: %s", what, d.Reason())
		}
	}
}

// TestDiffShowsAll: every entry that comes into a policy is shown as a change. A user would otherwise accept a policy
// that grants more than they have seen.
func TestDiffShowsAll(t *testing.T) {
	const base = `keys: {a: {key: "$key1"}}` + "\n"
	for _, line := range []string{
		`keys: {a: {key: "$key1", not-before: "2026-11-20"}}`,
		`keys: {a: {key: "$key1"}, b: {key: "$key2"}}`,
		`digests: {"$digest(x)": {tree: "$digest(y)"}}`,
		`digests: {"$digest(x)": {reason: why}}`,
		`lists: {l: {from: x, key: a, max-age: 1d}}`,
		`override: [rye/a]`,
		`inside: [a.example]`,
		`grants: {"tool:x": [rye.execute.tool.x]}`,
		`exec: {strangers: landlock}`,
		`exec: {audit: required}`,
		`exec: {toolchain: enforce}`,
		`exec: {network: [a.example]}`,
		`exec: {network: []}`,
		`exec: {limits: {memory: 64MiB}}`,
		`exec: {limits: {processes: 70}}`,
		`advisories: {"https://r.example": {load: high, max-age: 7d}}`,
	} {
		text := base + line + "\n"
		if strings.HasPrefix(line, "keys") {
			text = line + "\n"
		}
		p, err := Parse([]byte(fill(text)))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if changes(mustParse(t, base), p) == "" || changes(p, mustParse(t, base)) == "" {
			t.Errorf("%s is no change", line)
		}
	}
	// One field of an entry that stays.
	for from, to := range map[string]string{
		`digests: {"$digest(x)": {tree: "$digest(y)"}}`: `digests: {"$digest(x)": {tree: "$digest(z)"}}`,
		`lists: {l: {from: x, key: a, max-age: 1d}}`:    `lists: {l: {from: y, key: a, max-age: 1d}}`,
		`lists: {l: {key: a, from: x, max-age: 1d}}`:    `lists: {l: {from: x, key: b, max-age: 1d}}`,
		`lists: {l: {max-age: 1d, from: x, key: a}}`:    `lists: {l: {from: x, key: a, max-age: 2d}}`,
		`lists: {l: {from: x, max-age: 1d, key: a}}`:    `lists: {l: {from: x, key: a, max-age: 1d, stale: warn}}`,
		`advisories: {"https://r.example": {load: high, max-age: 7d}}`: `advisories: {"https://r.example": {load: low,
  max-age: 7d}}`,
		`advisories: {"https://r.example": {max-age: 7d, load: high}}`: `advisories: {"https://r.example": {load: high,
  max-age: 8d}}`,
		`advisories: {"https://r.example": {load: high, max-age: 7d, call: high}}`: `advisories:
  "https://r.example": {load: high, max-age: 7d, call: low}`,
		`advisories: {"https://r.example": {load: high, max-age: 7d, stale: refuse}}`: `advisories:
  "https://r.example": {load: high, max-age: 7d, stale: warn}`,
	} {
		const keys = `keys: {a: {key: "$key1"}, b: {key: "$key2"}}` + "\n"
		if changes(mustParse(t, keys+from+"\n"), mustParse(t, keys+to+"\n")) == "" {
			t.Errorf("from %s to %s is no change", from, to)
		}
	}
}

// TestRemoveSpareKey: a key that rules can do without leaves them as it leaves the policy, and no other key does.
func TestRemoveSpareKey(t *testing.T) {
	p := mustParse(t, `keys: {a: {key: "$key1"}, b: {key: "$key2"}, c: {key: "$key3"}}
names: {"**": {keys: [a, b, c], threshold: 2}, "x/**": {keys: [a]}}
lists: {l: {from: x, key: a, max-age: 1d}}
`)
	e, err := p.RemoveKey("b")
	edited(t, e, err)
	want := "- keys b key: $key2\n~ names \"**\" keys: [a, b, c] -> [a, c]\n"
	if got := changes(p, e); got != fill(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, fill(want))
	}
	if _, err := e.RemoveKey("c"); err == nil {
		t.Error("a rule is left without its threshold")
	}
}

// TestRotateKeyOfList: a key that leaves a rule stays in the policy while a revocation list is signed by it. Without
// the key the list would count no more.
func TestRotateKeyOfList(t *testing.T) {
	p := mustParse(t, `keys: {a: {key: "$key1"}, b: {key: "$key2"}}
names: {"**": {keys: [a]}, "x/**": {keys: [b]}}
lists: {l: {from: x, key: a, max-age: 7d, stale: warn}}
`)
	a := pub(1).Fingerprint()
	e, err := (&Side{Policy: p}).Rotate(Rotation{Rule: "**", Before: []key.Fingerprint{a}, Retire: a,
		Key: Key{Name: "d", Public: pub(4)}}, []sign.Signer{v2(1)[0], v2(4)[0]}, noon)
	got := edited(t, e, err)
	if k, ok := e.KeyNamed("a"); !ok || k.Public != pub(1) {
		t.Errorf("the list's key is gone:\n%s", got)
	}
	if keys := e.Sections().Rules[0].Keys; len(keys) != 1 || keys[0] != "d" {
		t.Errorf("the rule names %v", keys)
	}
}

// TestStaleAdvice: advisories that may be stale warn, and a registry's address holds no password: a policy is shown
// and shared.
func TestStaleAdvice(t *testing.T) {
	s := advisedSide(t, "load: high, max-age: 7d, stale: warn")
	if why := s.Advise(adviceAt(noon.AddDate(0, 0, -8)), ToUse, noon); !strings.Contains(why, "longer ago than") {
		t.Errorf("warned of %q", why)
	}
	if why := s.Advise(adviceAt(noon), ToUse, noon); why != "" {
		t.Errorf("warned of %q", why)
	}
	for _, at := range []string{"https://ann:secret@r.example", "https://ann@r.example"} {
		if _, err := Parse([]byte("advisories: {\"" + at + "\": {load: low, max-age: 7d}}\n")); err == nil {
			t.Errorf("%s is taken", at)
		}
	}
}
