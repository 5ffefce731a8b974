package trust_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// TestAdditionToRule: a key that is added to a rule takes nothing from those that vouch there already: the rule keeps
// its keys, its threshold and what it accepts, unless the user says otherwise.
func TestAdditionToRule(t *testing.T) {
	p := twoKeys(t, "  \"old/**\": {keys: [bob], accept: [v1, v2]}\n")
	one := 1
	eve := policy.Key{Name: "eve", Owner: "Eve", Public: keytest.Eve().Public()}
	alice, _ := p.KeyNamed("alice")
	for _, c := range []struct {
		add        trust.Addition
		name, rule string
	}{
		{trust.Addition{Key: eve, Names: []string{"acme/**"}}, "tool:acme/x", "keys: [alice, bob, eve], threshold: 2"},
		{trust.Addition{Key: eve, Names: []string{"acme/**"}, Threshold: &one}, "tool:acme/x",
			"keys: [alice, bob, eve], threshold: 1"},
		{trust.Addition{Key: eve, Names: []string{"**"}}, "tool:x", "keys: [alice, eve], threshold: 1"},
		{trust.Addition{Key: eve, Names: []string{"old/**"}}, "tool:old/x",
			"keys: [bob, eve], threshold: 1, accept: [v1, v2]"},
		{trust.Addition{Key: eve, Names: []string{"old/**"}, Accept: "v2"}, "tool:old/x",
			"keys: [bob, eve], threshold: 1"},
		{trust.Addition{Key: alice, Names: []string{"acme/**"}}, "tool:acme/x", "keys: [alice, bob], threshold: 2"},
	} {
		after, _, err := c.add.To(p)
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := after.RuleOf(c.name); !strings.HasPrefix(r.String(), c.rule) ||
			strings.Contains(r.String(), "v1") != strings.Contains(c.rule, "v1") {
			t.Errorf("%v: %s, want %s", c.add.Names, r, c.rule)
		}
	}
}

// TestAdditionOfKnownKey: a key that the policy knows keeps its name and its owner. A name that the user chose never
// becomes another one, and a mistake in one property isn't lost because another one changes.
func TestAdditionOfKnownKey(t *testing.T) {
	p := twoKeys(t, "")
	later := nine.AddDate(1, 0, 0)
	nameless, err := p.SetOwner("bob", "")
	if err != nil {
		t.Fatal(err)
	}
	bob, eve := keytest.Bob().Public(), keytest.Eve().Public()
	for name, c := range map[string]struct {
		to    *policy.Policy
		key   policy.Key
		named bool
		want  string // name, owner, dates; "" for an error
	}{
		"another owner":       {p, policy.Key{Name: "bob", Owner: "Eve", Public: bob}, false, ""},
		"another chosen name": {p, policy.Key{Name: "robert", Owner: "Bob", Public: bob}, true, ""},
		"its own name": {p, policy.Key{Name: "bob", Owner: "Bob", Public: bob, Expires: later}, true,
			"bob Bob - 2027"},
		"an owner at last": {nameless, policy.Key{Name: "b", Owner: "Bob", Public: bob}, false, "bob Bob - -"},
		"not before": {p, policy.Key{Name: "bob", Owner: "Bob", Public: bob, NotBefore: nine}, false,
			"bob Bob 2026 -"},
		"a bad owner, and a date": {nameless, policy.Key{Name: "bob", Owner: strings.Repeat("x", 5000), Public: bob,
			Expires: later}, false, ""},
		"a chosen name that is taken": {p, policy.Key{Name: "bob", Owner: "Bob", Public: eve}, true, ""},
	} {
		after, _, err := trust.Addition{Key: c.key, Named: c.named, Names: []string{"x/**"}}.To(c.to)
		if err != nil || c.want == "" {
			if err == nil || c.want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		year := func(at time.Time) string {
			if at.IsZero() {
				return "-"
			}
			return at.Format("2006")
		}
		k, _ := after.Key(c.key.Public.Fingerprint())
		if got := fmt.Sprint(k.Name, " ", k.Owner, " ", year(k.NotBefore), " ", year(k.Expires)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestLosses: only the user's own keys that vouched for a name, and don't any more, are reported.
func TestLosses(t *testing.T) {
	p := twoKeys(t, "")
	own := []trust.KeyState{
		trust.StateOf("mine", keytest.Alice().Public(), policy.Side{Policy: p}, nine),
		trust.StateOf("bobs", keytest.Bob().Public(), policy.Side{Policy: p}, nine),
		trust.StateOf("none", keytest.Eve().Public(), policy.Side{Policy: p}, nine),
	}
	eve := policy.Key{Name: "eve", Owner: "Eve", Public: keytest.Eve().Public()}
	for glob, want := range map[string][]trust.Loss{
		"tool:x/**": {{Key: "alice", Names: "tool:x/**", Rule: "**"}},
		"acme/**":   nil, // she is added beside them
		"acme/deploy*": {{Key: "alice", Names: "acme/deploy*", Rule: "acme/**"},
			{Key: "bob", Names: "acme/deploy*", Rule: "acme/**"}},
	} {
		add := trust.Addition{Key: eve, Names: []string{glob}}
		after, _, err := add.To(p)
		if err != nil {
			t.Fatal(err)
		}
		if lost := add.Losses(own, p, after); !slices.Equal(lost, want) {
			t.Errorf("%s: %+v, want %+v", glob, lost, want)
		}
	}
}
